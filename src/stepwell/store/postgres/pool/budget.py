"""ConnectionBudget: the connections that a store has, and how its slots share them on a full server.

A slot connects when it is first needed. If the server is full, it takes over the connection of an idle
slot, or waits for the next one that a slot is done with. So a store with a single connection keeps working,
however many slots it has. Connections that are unused for a while are closed.
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

SLOT_SECONDS = 60.0  # waiting for a free slot
SHARE_SECONDS = SLOT_SECONDS / TRIES  # waiting for another slot's connection; then everything is tried again
SHORT_SECONDS = 30.0
ASK_SECONDS_MAX = 1.0  # a full server is tried again after a pause, which doubles up to this
MAKE_ROOM_SECONDS = 2.0  # after that, a connection that was given up has been taken


class ConnectionBudget:
    """Connections of one kind. The last `keeps` of them are never given up."""

    def __init__(self, address: Address, settings: dict[str, str], *, keeps: int) -> None:
        self.address = address
        self._settings = settings
        self._keeps = keeps
        self._slots: list[ConnectionSlot] = []
        self._idle: list[list[ConnectionSlot]] = []  # by kind of work
        self.queue: deque[asyncio.Future[Connection]] = deque()  # slots that wait for another's connection
        self.neighbours: list[Callable[[], bool]] = []  # they may give up a connection for us
        self._full: StoreUnavailable | None = None  # the error of a full server
        self._refused_at = 0.0  # loop time
        self._ask_at = 0.0  # when to try the server again
        self._pause = FIRST_PAUSE

    def slots(self, count: int) -> list[ConnectionSlot]:
        """Make new slots, all idle. The budget looks into the same list, so callers keep it up to date."""
        idle = [ConnectionSlot(self.address, self.connection) for _ in range(count)]
        self._slots += idle
        self._idle.append(idle)
        return idle

    def is_short(self) -> bool:
        """True if the server was full a short while ago: others may need what we do not use."""
        now = asyncio.get_running_loop().time()
        return self._full is not None and now < self._refused_at + SHORT_SECONDS

    @property
    def connected(self) -> int:
        return sum(slot.connected for slot in self._slots)

    async def connection(self) -> Connection:
        """Connect or, if the server is full, take a connection that another slot does not need."""
        loop = asyncio.get_running_loop()
        until = loop.time() + SHARE_SECONDS
        given_up_at: float | None = None
        while True:
            now = loop.time()
            if self._is_sharing(now) and (spare := self._spare()) is not None:
                return spare.give_up()
            # A slot that shares and got nothing in time tries the server, though the pause is not over.
            if now >= self._ask_at or (self._full is None and (now >= until or not self.connected)):
                if (connection := await self._try_connect()) is not None:
                    return connection
                continue
            is_old = given_up_at is None or now >= given_up_at + MAKE_ROOM_SECONDS
            if is_old and any(give_up() for give_up in self.neighbours):
                given_up_at = now
                self._pause, self._ask_at = FIRST_PAUSE, now + FIRST_PAUSE
            if (full := self._full) is not None and (
                now >= until or (given_up_at is None and not self.connected)
            ):
                raise StoreUnavailable(full.message, hint=full.hint, **full.context) from full.__cause__
            if (shared := await self._shared(min(self._ask_at, until) - now)) is not None:
                return shared

    def _is_sharing(self, now: float) -> bool:
        return self._full is not None or now < self._ask_at

    async def _try_connect(self) -> Connection | None:
        loop = asyncio.get_running_loop()
        if self._full is not None:
            self._ask_at = loop.time() + self._pause  # one slot tries for all
        try:
            connection = await connect(self.address, self._settings)
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
        return connection

    def _spare(self) -> ConnectionSlot | None:
        return next((slot for idle in self._idle for slot in idle if slot.connected), None)

    async def _shared(self, seconds: float) -> Connection | None:
        """Wait for a connection that another slot passes on."""
        passed_on: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self.queue.append(passed_on)
        try:
            await asyncio.wait([passed_on], timeout=max(seconds, 0.0))
        except asyncio.CancelledError:
            if passed_on.done():
                self.pass_on(passed_on.result())
            raise
        finally:
            if not passed_on.done():
                self.queue.remove(passed_on)
        return passed_on.result() if passed_on.done() else None

    def pass_on(self, connection: Connection) -> None:
        """Hand it to the slot that has waited longest."""
        if self.queue:
            self.queue.popleft().set_result(connection)
        else:
            connection.terminate()

    def give_up(self) -> bool:
        """Close an idle connection, so that somebody else can connect; False: there is none to spare."""
        spare = self._spare() if self.connected > self._keeps else None
        if spare is not None:
            spare.drop()
        return spare is not None

    def make_way(self) -> bool:
        """Do the same for another engine, and share the rest until it had time to connect."""
        gave_up = self.give_up()
        if gave_up:
            self._ask_at = asyncio.get_running_loop().time() + MAKE_ROOM_SECONDS
        return gave_up

    async def rest(self, looks: int) -> None:
        """Close connections that were unused at the last `looks` calls of this."""
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
        finally:  # cancelled: nobody else would close them
            for connection in unused:
                if not connection.is_closed():
                    connection.terminate()
