"""Secrets: the keys that open them, where they are opened, and what keeps them out of everything written."""
