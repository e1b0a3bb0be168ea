"""How a new run begins with part of another run's log."""
