"""Real faults on real processes: killed, frozen and cut off, watched by a ledger outside."""
