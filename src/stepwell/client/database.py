"""The database as operators see it: what it contains, whether it is sound, backups and pruning.

Each verb takes an open store, such as `engine.store`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import NamedTuple

from stepwell.domain.duration import Duration, seconds
from stepwell.store.base import PURGE_PAGE, Store
from stepwell.store.maintenance import StoreFault


class DatabaseInfo(NamedTuple):
    """`schema` is the version of its tables, `newest` the one that this Stepwell knows."""

    schema: int
    newest: int
    bytes: int
    encoded: bool
    counts: Mapping[str, int]


class Pruned(NamedTuple):
    runs: int
    events: int


async def info(store: Store) -> DatabaseInfo:
    """Return the version of the tables, the size, and how many rows there are."""
    schema, size = await store.read_schema(), await store.read_size()
    encoded = await store.read_codec_check() is not None
    return DatabaseInfo(schema.stored, schema.known, size.bytes, encoded, size.counts)


async def check(store: Store) -> Sequence[StoreFault]:
    """Return the damage: broken pages, gaps in logs, tickets that do not match their runs. Only reads."""
    return await store.find_faults()


async def back_up(store: Store, path: str | PathLike[str]) -> int:
    """Copy a SQLite file while it is in use, and return the size of the copy.

    PostgreSQL has its own tools.
    """
    return await store.back_up(fspath(path))


async def prune(
    store: Store, *, older_than: Duration, progress: Callable[[Pruned], None] = lambda done: None
) -> Pruned:
    """Remove runs that ended that long ago, and broadcast events that no run waits for."""
    age = seconds(older_than, name="older_than")
    runs, events, after = 0, 0, ""
    while True:
        page = await store.purge(age, after=after)
        runs += page.runs
        progress(Pruned(runs, events))
        if page.after is None:
            break
        after = page.after
    while True:
        gone = await store.purge_events(age)
        events += gone
        progress(Pruned(runs, events))
        if gone < PURGE_PAGE:
            return Pruned(runs, events)
