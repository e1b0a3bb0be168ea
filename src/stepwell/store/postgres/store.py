"""PostgresStore: many processes on many machines, one PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stepwell.store.postgres.archive import PostgresArchive
from stepwell.store.postgres.claims import PostgresClaims
from stepwell.store.postgres.connection import ANSWER_SECONDS, Lanes
from stepwell.store.postgres.endings import PostgresEndings
from stepwell.store.postgres.fleet import PostgresFleet
from stepwell.store.postgres.listener import Listener
from stepwell.store.postgres.migrate import prepare
from stepwell.store.postgres.rates import PostgresRates
from stepwell.store.postgres.reading import PostgresReading
from stepwell.store.postgres.remote import PostgresRemote
from stepwell.store.postgres.session import COMMITS_AT_ONCE


class PostgresStore(
    PostgresRates,
    PostgresEndings,
    PostgresRemote,
    PostgresClaims,
    PostgresFleet,
    PostgresReading,
    PostgresArchive,
):
    """`dsn` is a postgresql:// URL with two options of ours: schema=name, and poll_only=1 for PgBouncer
    in transaction mode. Without `clock` time is the database's.
    """

    turn_first = False
    commits_at_once = COMMITS_AT_ONCE

    def __init__(self, dsn: str, *, clock: Callable[[], float] | None = None) -> None:
        super().__init__(dsn, clock=clock)
        self.polls = self._address.poll_only
        self._listener = Listener(self._address)

    async def open(self) -> None:
        for lanes in self._every_lane:
            lanes.open()
        await self._side_lanes.run_once(lambda connection: prepare(connection, self._address))
        self._listener.open()

    async def close(self) -> None:
        await self._starting.close()
        await self._start_within.close()
        await self._delivering.close()
        await self._defined.close()
        await self._finishing_remote.close()
        await self._listener.close()
        if self._finishing:
            await asyncio.wait(self._finishing, timeout=ANSWER_SECONDS)
        for lanes in self._every_lane:
            await lanes.close()

    @property
    def _every_lane(self) -> tuple[Lanes, ...]:
        return (*self._all_lanes, self._rated_lanes, self._user_lanes)

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._listener.listen(callback)

    def hint(self) -> None:
        self._listener.hint()
