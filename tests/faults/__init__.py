"""Real faults on real processes: killed, frozen and disconnected, observed by an external ledger."""
