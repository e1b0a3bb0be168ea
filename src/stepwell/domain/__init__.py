"""What a run is. Pure: no I/O, no clock, no randomness, no async, no logging."""
