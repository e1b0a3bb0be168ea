"""Trio: memory, SQLite and PostgreSQL side by side, emptied for each example, in one event loop."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import asyncpg

from stepwell.store.base import Store
from stepwell.store.memory import MemoryStore
from stepwell.store.postgres.store import PostgresStore
from stepwell.store.sqlite.store import SqliteStore
from stepwell.testing.clock import FakeClock
from tools.postgres.databases import Databases

T = TypeVar("T")
_SHM = Path("/dev/shm")

# DELETE and not TRUNCATE: with a handful of rows it is twenty times faster.
EMPTIED = """
DO $$
DECLARE name text;
BEGIN
    FOR name IN
        SELECT tablename FROM pg_tables
        WHERE schemaname = 'stepwell' AND tablename NOT IN ('migrations', 'contact')
    LOOP
        EXECUTE format('DELETE FROM stepwell.%I', name);
    END LOOP;
    DELETE FROM stepwell.run_count_changes; -- those of the rows that were deleted
    UPDATE stepwell.contact SET since = 0, last = 0;
END $$
"""


async def empty(connection: Any) -> None:
    """Takes all rows out of a database that has Stepwell's tables, or none at all yet."""
    if await connection.fetchval("SELECT to_regclass('stepwell.contact') IS NOT NULL"):
        await connection.execute(EMPTIED)


class SharedDatabase:
    """One database for many tests: taking the rows out is faster than making a new one.

    What does that stays connected, in a loop of its own: to connect would take longer than the rest.
    """

    def __init__(self, databases: Databases) -> None:
        self._databases = databases
        self.url = databases.create()
        self._runner = asyncio.Runner()
        self._connection: Any = None

    def empty(self) -> None:
        self._runner.run(self._empty())

    async def _empty(self) -> None:
        if self._connection is not None:
            try:
                await empty(self._connection)
                return
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                self._connection.terminate()  # another test has killed the server since
        self._connection = await asyncpg.connect(self.url)
        await empty(self._connection)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
        self._runner.close()
        self._databases.drop(self.url)


async def hurried(url: str) -> None:
    """Its transactions do not wait for the disk, from the next connection on."""
    connection = await asyncpg.connect(url)
    try:
        name = await connection.fetchval("SELECT quote_ident(current_database())")
        await connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    finally:
        await connection.close()


class Trio:
    """PostgreSQL stays open between examples: its pool belongs to the loop, not to the data."""

    def __init__(self, folder: Path, url: str) -> None:
        # What is compared are answers, not what survives a power cut: nobody has to wait for disks.
        self._shm = tempfile.TemporaryDirectory(dir=_SHM) if _SHM.is_dir() else None
        self._folder = Path(self._shm.name) if self._shm is not None else folder
        self._url = url
        self._runner = asyncio.Runner()
        self._files = 0
        self._clock = FakeClock()
        self._postgres = PostgresStore(url, clock=self._time)
        self._sqlite: SqliteStore | None = None
        self._emptying: Any = None

    def __enter__(self) -> Self:
        self.run(hurried(self._url))
        self._emptying = self.run(asyncpg.connect(self._url))
        self.run(self._postgres.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self._postgres.close())
        self.run(self._emptying.close())
        self._runner.close()
        if self._shm is not None:
            self._shm.cleanup()

    def run(self, verb: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await verb

        # Not Runner.run: its handling of signals costs more than most of our verbs.
        return self._runner.get_loop().run_until_complete(awaited())

    def _time(self) -> float:
        return self._clock.time()

    def open(self, clock: FakeClock) -> list[Store]:
        self._files += 1
        self._clock = clock
        self._sqlite = SqliteStore(self._folder / f"{self._files}.db", clock=clock)
        self.run(self._sqlite.open())
        self.run(empty(self._emptying))
        return [MemoryStore(clock), self._sqlite, self._postgres]

    def close(self) -> None:
        if self._sqlite is not None:
            self.run(self._sqlite.close())
            self._sqlite = None
