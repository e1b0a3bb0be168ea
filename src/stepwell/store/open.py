"""Open a store from its address. Only the driver of that store is imported."""

from __future__ import annotations

import time
from collections.abc import Callable
from os import PathLike, fspath
from urllib.parse import unquote, urlsplit

from stepwell.errors import SettingsInvalid, excerpt
from stepwell.store.base import Store

HINT = 'use a file ("app.db", "sqlite:///app.db"), ":memory:" or "postgresql://user@host/database"'


def open_store(database: str | PathLike[str], *, clock: Callable[[], float] | None = None) -> Store:
    """Return a store that is not connected yet; `await store.open()` connects it."""
    if not isinstance(database, str | PathLike):
        raise SettingsInvalid(f"the database is {excerpt(database)}", hint=HINT)
    url_or_path = fspath(database)
    if url_or_path in (":memory:", "sqlite://", "sqlite:///:memory:"):
        from stepwell.store.memory import MemoryStore

        return MemoryStore(clock or time.time)
    scheme, mark, rest = url_or_path.partition("://")
    if url_or_path.startswith(("postgres:", "postgresql:")) and not mark:
        raise SettingsInvalid(f"{excerpt(url_or_path)} lacks the slashes after the scheme", hint=HINT)
    if not mark or scheme == "sqlite":
        return _sqlite(_path(rest) if mark else url_or_path, clock)
    if scheme in ("postgresql", "postgres"):
        return _postgres(url_or_path, clock)
    if scheme in ("http", "https"):
        raise SettingsInvalid(
            f"{excerpt(url_or_path)} is a server, not a database",
            hint="stepwell.connect(address, key=...), or SyncClient(address, key=...)",
        )
    raise SettingsInvalid(f"no store has the scheme {excerpt(scheme)}", hint=HINT)


def _path(rest: str) -> str:
    """The path after `sqlite://`: /app.db is relative, //var/app.db is absolute."""
    place = urlsplit(f"sqlite://{rest}")
    if place.netloc or not place.path.strip("/"):
        raise SettingsInvalid(
            f"sqlite://{rest} does not name a file",
            hint=f"three slashes: sqlite:///{rest or 'app.db'}; or {HINT}",
        )
    return unquote(place.path[1:])


def _sqlite(path: str, clock: Callable[[], float] | None) -> Store:
    from stepwell.store.sqlite.store import SqliteStore

    if not path.strip() or "\x00" in path:
        raise SettingsInvalid("the path of the database is empty or not a path", hint=HINT)
    return SqliteStore(path, clock=clock)


def _postgres(dsn: str, clock: Callable[[], float] | None) -> Store:
    try:
        from stepwell.store.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise SettingsInvalid(
            "the PostgreSQL store needs asyncpg", hint="pip install 'stepwell[postgres]'"
        ) from error
    return PostgresStore(dsn, clock=clock)
