"""For tests of workflows and of stores: a clock that stands still, and a suite every store must pass."""
