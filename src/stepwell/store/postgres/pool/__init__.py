"""Connections to the server: the budget, the slots, batches, wake-ups."""
