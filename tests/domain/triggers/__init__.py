"""Triggers: when schedules are due, and what they start."""
