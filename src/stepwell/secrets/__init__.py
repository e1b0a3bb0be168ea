"""Secrets: the keys that seal them, the place where they are opened, and their redaction."""
