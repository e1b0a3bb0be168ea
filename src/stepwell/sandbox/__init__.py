"""Sandboxes: processes that run code of strangers with time, memory and nothing else."""
