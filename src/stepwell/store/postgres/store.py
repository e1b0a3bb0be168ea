"""PostgresStore: many processes on many machines, one PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from stepwell.domain.commit import WorkerInfo
from stepwell.store.base import must_be_plain
from stepwell.store.postgres.archive import PostgresArchive
from stepwell.store.postgres.cancel_retry import PostgresEndings
from stepwell.store.postgres.claims import PostgresClaims
from stepwell.store.postgres.database import COMMITS_AT_ONCE, STARTS_AT_ONCE
from stepwell.store.postgres.migrate import prepare
from stepwell.store.postgres.pool.budget import ConnectionBudget
from stepwell.store.postgres.pool.connection import ANSWER_SECONDS
from stepwell.store.postgres.pool.slots import ConnectionSlots
from stepwell.store.postgres.rates import PostgresRates
from stepwell.store.postgres.reads import PostgresReading
from stepwell.store.postgres.remote_steps import PostgresRemote
from stepwell.store.postgres.wakeups import NO_ROOM, Listener, is_over
from stepwell.store.postgres.workers import PostgresFleet

LOOK_SECONDS = 1.0  # one look for all connections of a store; it asks nobody anything
LOOKS = 300  # a connection that was not used at so many is given back to the server; a new one costs 10 ms
LOOKS_SHORT = 2  # while the server is full


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

    sync_transactions = False
    commits_at_once = COMMITS_AT_ONCE
    starts_at_once = STARTS_AT_ONCE

    def __init__(self, dsn: str, *, clock: Callable[[], float] | None = None) -> None:
        super().__init__(dsn, clock=clock)
        self.polls = self._address.poll_only
        self._listener = Listener(self._address, self._make_way)
        self._resting: asyncio.Task[None] | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._room.neighbours += [self._user_room.give_up, partial(self._do_without_hints, self._room)]
        self._user_room.neighbours += [
            self._room.give_up,
            partial(self._do_without_hints, self._user_room),
            self._ask_other_engines,
        ]

    async def open(self, *, encoded: bool = False) -> None:
        for lanes in self._every_lane:
            lanes.open()
        await self._side_lanes.run_once(lambda connection: prepare(connection, self._address))
        if not encoded:
            await self._check_plain()
        self._listener.open()
        if is_over(self._resting):
            self._resting = asyncio.create_task(self._rest())

    async def _check_plain(self) -> None:
        try:
            await must_be_plain(self)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        for task in (self._resting, self._preparing, self._telling):
            if task is not None:
                task.cancel()
        self._resting = self._preparing = self._telling = None
        await self._starting.close()
        await self._start_within.close()
        await self._delivering.close()
        await self._emitting.close()
        await self._defined.close()
        await self._finishing_remote.close()
        await self._listener.close()
        if self._finishing:
            await asyncio.wait(self._finishing, timeout=ANSWER_SECONDS)
        for lanes in self._every_lane:
            await lanes.close()

    async def register(self, worker: WorkerInfo) -> None:
        await super().register(worker)
        if is_over(self._preparing) and not self._address.poll_only:
            self._preparing = asyncio.create_task(self._prepare_commits())

    async def _prepare_commits(self) -> None:
        """A worker will commit: its first run does not wait for a connection and two plans, 30 ms."""
        with suppress(Exception):
            await self._commit_lanes.run(self._plan_commits)

    async def _rest(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            short = self._room.is_short() or self._user_room.is_short()
            for room in (self._room, self._user_room):
                await room.rest(LOOKS_SHORT if short else LOOKS)

    def _do_without_hints(self, room: ConnectionBudget) -> bool:
        """Hints only save time: their connection goes when there is no other to work with."""
        return not room.connected and self._listener.give_up()

    def _ask_other_engines(self) -> bool:
        """For a place, when transactional steps have none and we have none to give up for them."""
        if self._user_room.connected or self._address.poll_only:
            return False
        if is_over(self._telling):
            self._telling = asyncio.create_task(self._tell_other_engines())
        return True

    async def _tell_other_engines(self) -> None:
        with suppress(Exception):
            await self._side_lanes.run(
                lambda connection: connection.execute(f"NOTIFY \"{self._listener.channel}\", '{NO_ROOM}'")
            )

    def _make_way(self) -> None:
        """For another engine, which has too few connections: it takes the place of one that is idle."""
        for give_up in (self._user_room.make_way, self._room.make_way, self._listener.give_up):
            if give_up():
                return

    @property
    def _every_lane(self) -> tuple[ConnectionSlots, ...]:
        return (*self._all_lanes, self._rated_lanes, self._user_lanes)

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._listener.listen(callback)

    def hint(self) -> None:
        self._listener.hint()
