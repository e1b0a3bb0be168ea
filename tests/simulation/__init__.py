"""The simulator at work: many seeds without a violation, and planted bugs that it must catch."""
