"""Open a store from its address. Only the driver of that store is imported."""

from __future__ import annotations

import time
from collections.abc import Callable
from os import PathLike, fspath
from secrets import token_hex
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from stepwell.errors import SettingsInvalid, excerpt
from stepwell.store.base import Store
from stepwell.store.move import Moved, MoveProgress, carry

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


class Upgraded(NamedTuple):
    """The version of a database's tables before and after; 0 if there were none."""

    before: int
    after: int


async def upgrade(database: str | PathLike[str]) -> Upgraded:
    """Apply missing migrations. Every engine does the same when it opens a database."""
    store = open_store(database)
    before = await store.stored_schema()
    await store.open(encoded=True)
    try:
        return Upgraded(before, (await store.read_schema()).stored)
    finally:
        await store.close()


async def move(
    source: str | PathLike[str],
    target: str,
    *,
    progress: Callable[[MoveProgress], None] = lambda done: None,
) -> Moved:
    """Move everything from a SQLite file to an empty PostgreSQL database.

    Stop all engines first. If the move is interrupted, engines refuse both databases until the same call
    completes it. Afterwards the file refuses engines with an error that names the target.
    """
    if not target.startswith(("postgresql://", "postgres://")):
        raise SettingsInvalid(
            f"the target is {excerpt(target)}",
            hint="name a PostgreSQL database: postgresql://user@host/database",
        )
    path = fspath(source)
    scheme, mark, rest = path.partition("://")
    if mark and scheme != "sqlite":
        raise SettingsInvalid(f"the source is {excerpt(path)}", hint="name a SQLite file, such as app.db")
    try:
        from stepwell.store.postgres.move import PgTarget
    except ModuleNotFoundError as error:
        raise _no_driver(error) from error
    from stepwell.store.sqlite.move import SqliteSource

    origin = SqliteSource(_path(rest) if mark else path, new_token=lambda: token_hex(16))
    return await carry(origin, PgTarget(target), progress)


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
        raise _no_driver(error) from error
    return PostgresStore(dsn, clock=clock)


def _no_driver(error: ModuleNotFoundError) -> Exception:
    if error.name != "asyncpg":
        return error
    return SettingsInvalid("the PostgreSQL store needs asyncpg", hint="pip install 'stepwell[postgres]'")
