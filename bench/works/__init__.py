"""Stepwell's own share of the bench: one module a kind of work, each returns its figures."""
