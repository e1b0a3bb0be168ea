"""Where runs are kept: memory, SQLite and PostgreSQL behind one protocol."""
