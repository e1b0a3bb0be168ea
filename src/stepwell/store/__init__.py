"""Stores: memory, SQLite and PostgreSQL, with one protocol."""
