"""Sandboxes: processes that run untrusted code with limited time and memory, and with nothing else."""
