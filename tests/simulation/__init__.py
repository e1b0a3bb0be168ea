"""Tests with the simulator: many seeds without a violation, and planted bugs that it must catch."""
