"""The bench runs, and the work it measures costs what it should: counted, not timed."""
