"""The PostgreSQL store: many processes, many machines, one database."""

from stepwell.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
