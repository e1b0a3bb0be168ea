"""Room: the connections that a store has, and what its lanes do when the server has no room for more.

A lane connects when it is first needed. When the server is full it takes over the connection of a lane
that is idle, or waits for the next one that a lane is done with: so a store that has one connection goes
on, however many lanes it has. What nobody used for a while is given back to the server.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from stepwell.errors import StoreUnavailable
from stepwell.store.postgres.pool.connection import FIRST_PAUSE, TRIES, Connection, connect
from stepwell.store.postgres.pool.dsn import Address
from stepwell.store.postgres.pool.errors import is_full
from stepwell.store.postgres.pool.slot import ConnectionSlot, close

SLOT_SECONDS = 60.0  # waiting for a free lane
SHARE_SECONDS = SLOT_SECONDS / TRIES  # for the connection of another one; then all that is tried again
SHORT_SECONDS = 30.0
ASK_SECONDS_MAX = 1.0  # a full server is asked again after a pause, which doubles up to this
MAKE_ROOM_SECONDS = 2.0  # then a place that was made for somebody is taken, by them or by others


class ConnectionBudget:
    """Connections of one kind. `keeps`: so many are never given up, so that there is one to work with."""

    def __init__(self, address: Address, settings: dict[str, str], *, keeps: int) -> None:
        self.address = address
        self._settings = settings
        self._keeps = keeps
        self._slots: list[ConnectionSlot] = []
        self._idle: list[list[ConnectionSlot]] = []  # by kind of work
        self.queue: deque[asyncio.Future[Connection]] = deque()  # of those who wait for one of another lane
        self.neighbours: list[Callable[[], bool]] = []  # who may have one to give up for us
        self._full: StoreUnavailable | None = None  # what a full server said
        self._refused_at = 0.0  # by the clock of the loop
        self._ask_at = 0.0  # again
        self._pause = FIRST_PAUSE

    def slots(self, count: int) -> list[ConnectionSlot]:
        """So many new ones, all idle: the list is where they are looked for when they are."""
        idle = [ConnectionSlot(self.address, self.connection) for _ in range(count)]
        self._slots += idle
        self._idle.append(idle)
        return idle

    def is_short(self) -> bool:
        """The server was full a short while ago: others may wait for what we do not use."""
        now = asyncio.get_running_loop().time()
        return self._full is not None and now < self._refused_at + SHORT_SECONDS

    @property
    def connected(self) -> int:
        return sum(slot.connected for slot in self._slots)

    async def connection(self) -> Connection:
        """A new one or, when the server has no room for it, one that another lane does not need."""
        loop = asyncio.get_running_loop()
        until = loop.time() + SHARE_SECONDS
        made_room_at: float | None = None
        while True:
            now = loop.time()
            if self._is_sharing(now) and (spare := self._spare()) is not None:
                return spare.give_up()
            # Who shares with others and was given nothing in time asks, though it is not our turn yet.
            if now >= self._ask_at or (self._full is None and (now >= until or not self.connected)):
                if (made := await self._asked()) is not None:
                    return made
                continue
            is_old = made_room_at is None or now >= made_room_at + MAKE_ROOM_SECONDS
            if is_old and any(give_up() for give_up in self.neighbours):
                made_room_at = now
                self._pause, self._ask_at = FIRST_PAUSE, now + FIRST_PAUSE
            if (full := self._full) is not None and (
                now >= until or (made_room_at is None and not self.connected)
            ):
                raise StoreUnavailable(full.message, hint=full.hint, **full.context) from full.__cause__
            if (given := await self._given(min(self._ask_at, until) - now)) is not None:
                return given

    def _is_sharing(self, now: float) -> bool:
        return self._full is not None or now < self._ask_at

    async def _asked(self) -> Connection | None:
        loop = asyncio.get_running_loop()
        if self._full is not None:
            self._ask_at = loop.time() + self._pause  # one asks for all
        try:
            made = await connect(self.address, self._settings)
        except StoreUnavailable as error:
            if not is_full(error):
                self._full, self._ask_at = None, 0.0
                raise
            self._full = error
            self._refused_at = loop.time()
            self._ask_at = self._refused_at + self._pause
            self._pause = min(2 * self._pause, ASK_SECONDS_MAX)
            return None
        self._full, self._ask_at, self._pause = None, 0.0, FIRST_PAUSE
        return made

    def _spare(self) -> ConnectionSlot | None:
        return next((slot for idle in self._idle for slot in idle if slot.connected), None)

    async def _given(self, seconds: float) -> Connection | None:
        given: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self.queue.append(given)
        try:
            await asyncio.wait([given], timeout=max(seconds, 0.0))
        except asyncio.CancelledError:
            if given.done():
                self.pass_on(given.result())
            raise
        finally:
            if not given.done():
                self.queue.remove(given)
        return given.result() if given.done() else None

    def pass_on(self, connection: Connection) -> None:
        """To the lane that has waited longest."""
        if self.queue:
            self.queue.popleft().set_result(connection)
        else:
            connection.terminate()

    def give_up(self) -> bool:
        """End one that is idle, so that somebody else can connect."""
        spare = self._spare() if self.connected > self._keeps else None
        if spare is not None:
            spare.drop()
        return spare is not None

    def make_way(self) -> bool:
        """The same, for another engine: until it had time to connect, we share what is left."""
        gave_up = self.give_up()
        if gave_up:
            self._ask_at = asyncio.get_running_loop().time() + MAKE_ROOM_SECONDS
        return gave_up

    async def rest(self, looks: int) -> None:
        """Give back to the server what was not used the last so many times that this was called."""
        unused: list[Connection] = []
        left = self.connected - self._keeps
        for slot in [slot for idle in self._idle for slot in idle if slot.connected]:
            slot.looks = 0 if slot.used else slot.looks + 1
            slot.used = False
            if slot.looks >= looks and len(unused) < left:
                unused.append(slot.give_up())
        try:
            for connection in unused:
                await close(connection)
        finally:  # cancelled: they are nobody's
            for connection in unused:
                if not connection.is_closed():
                    connection.terminate()
