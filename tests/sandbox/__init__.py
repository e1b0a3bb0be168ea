"""Code of strangers: what it can do, and what it cannot."""
