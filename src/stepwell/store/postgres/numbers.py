"""Numbers of runs within their workflow.

The last number of a workflow is one row. A start that changed it in its own transaction would hold it until
its commit, and starters of one workflow would go one after the other. So a process reserves numbers with a
statement of its own, and more of them the faster it starts runs. See decision 0019.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress

from stepwell.domain.commit import NewRun
from stepwell.domain.fork.run_copy import RunCopy
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.pool.connection import Connection

Scope = tuple[str, str]  # workspace, workflow

BUSY_SECONDS = 1.0  # a workflow that needs numbers again within this time gets some in reserve
RESERVE_FIRST = 8
RESERVE_MAX = 1000
CLOSE_SECONDS = 1.0  # to return what is left


class PgNumbers:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._sql = db.sql
        self._free: dict[Scope, deque[int]] = defaultdict(deque)  # in the order in which they are given
        self._reserves: dict[Scope, int] = {}
        self._reserved_at: dict[Scope, float] = {}
        self._reserving = asyncio.Lock()

    async def take(self, runs: Iterable[NewRun | RunCopy]) -> dict[str, int]:
        """A number for each run, by its id. Hold no connection of this store meanwhile."""
        runs = list(runs)
        scopes = [(run.workspace, run.workflow) for run in runs]
        needed = Counter(scopes)
        if self._short(needed):
            async with self._reserving:  # another task may have reserved enough meanwhile
                while short := self._short(needed):
                    await self._reserve(short)
        if len(needed) == 1:
            give = self._free[scopes[0]].popleft
            return {run.id: give() for run in runs}
        return {run.id: self._free[scope].popleft() for run, scope in zip(runs, scopes, strict=True)}

    def give_back(self, run: NewRun, number: int) -> None:
        """No run was written with this number: the next one gets it."""
        self._free[run.workspace, run.workflow].appendleft(number)

    def _short(self, needed: Counter[Scope]) -> dict[Scope, int]:
        free = {scope: len(self._free[scope]) for scope in needed}
        return {scope: count - free[scope] for scope, count in needed.items() if count > free[scope]}

    async def _reserve(self, short: dict[Scope, int]) -> None:
        now = time.monotonic()
        counts = {scope: count + self._reserve_for(scope, now) for scope, count in short.items()}
        scopes = sorted(counts)
        columns = [[s[0] for s in scopes], [s[1] for s in scopes], [counts[s] for s in scopes]]

        async def work(connection: Connection) -> list[tuple[str, str, int]]:
            return [tuple(row) for row in await connection.fetch(self._sql["reserve_numbers"], *columns)]

        for workspace, workflow, last in await self._db.start_slots.run(work, own_task=True):
            first = last - counts[workspace, workflow] + 1
            self._free[workspace, workflow].extend(range(first, last + 1))

    def _reserve_for(self, scope: Scope, now: float) -> int:
        busy = now - self._reserved_at.get(scope, -BUSY_SECONDS) < BUSY_SECONDS
        self._reserved_at[scope] = now
        reserve = min(RESERVE_MAX, 2 * self._reserves.get(scope, 0) or RESERVE_FIRST) if busy else 0
        self._reserves[scope] = reserve
        return reserve

    async def close(self) -> None:
        """Return what was not used, if nobody reserved more meanwhile: then it leaves no gap."""
        rows = [(*scope, min(free) - 1, max(free)) for scope, free in self._free.items() if _unbroken(free)]
        self._free.clear()
        self._reserved_at.clear()
        if rows:
            with suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._db.start_slots.run(lambda connection: self._return(connection, rows))

    async def _return(self, connection: Connection, rows: Sequence[tuple[str, str, int, int]]) -> None:
        await connection.executemany(self._sql["return_numbers"], rows)


def _unbroken(free: deque[int]) -> bool:
    return bool(free) and max(free) - min(free) + 1 == len(free)
