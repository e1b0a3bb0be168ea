"""Secrets: sealed, opened by name, and kept out of everything written."""
