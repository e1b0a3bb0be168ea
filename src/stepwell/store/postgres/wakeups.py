"""Listener: hints between processes, over a connection of its own.

A notification is empty and coalesced: at most one in 5 ms from a process, the first at once, and one in
20 ms from a process that has very much to tell. It is never part of a transaction that does work, because
notifying commits take turns in the whole database. A lost hint costs latency only: everybody looks again
by itself now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from stepwell.store.postgres.pool.budget import MAKE_ROOM_SECONDS
from stepwell.store.postgres.pool.connection import ENGINE_SETTINGS, Connection, connect, pauses
from stepwell.store.postgres.pool.dsn import Address

HINT_SECONDS = 0.005
BUSY_HINT_SECONDS = 0.02
BUSY_RATE = 800.0  # hints a second
CHECK_SECONDS = 10.0  # is the connection still there?
CHECK_ANSWER_SECONDS = 5.0
NO_ROOM = "no room"  # what an engine says that has no connection for a kind of its work
# NOTIFY writes to the log of the server too, but a hint may be lost: nobody waits for the disk.
SETTINGS = ENGINE_SETTINGS | {"synchronous_commit": "off"}


class NotifyWakeups:
    """`make_way` is called when another engine has too few connections."""

    def __init__(self, address: Address, make_way: Callable[[], object]) -> None:
        self._address = address
        self._make_way = make_way
        self.channel = f"stepwell_{address.schema}"[:63]
        self._callbacks: list[Callable[[], None]] = []
        self._wanted: asyncio.Event = asyncio.Event()  # somebody hinted
        self._hints = 0  # since the last that was sent
        self._task: asyncio.Task[None] | None = None
        self._is_open = False
        self._connection: Connection = None
        self._gave_up = False

    def open(self) -> None:
        self._is_open = not self._address.poll_only
        if is_over(self._task):
            self._task, self._wanted = None, asyncio.Event()  # both are of one loop
        if self._callbacks:
            self._begin()

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        self._begin()

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._callbacks.remove(callback)

        return stop

    def hint(self) -> None:
        if self._is_open:
            self._hints += 1
            self._wanted.set()
            self._begin()

    def give_up(self) -> bool:
        """End the connection, so that somebody else can connect; a new one is made after a pause."""
        if self._connection is None:
            return False
        self._connection.terminate()
        self._connection = None
        self._gave_up = True
        return True

    def _begin(self) -> None:
        if self._task is None and self._is_open:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """A hint given just before is still sent, if it can be at once."""
        self._is_open = False
        if self._task is None:
            return
        if self._wanted.is_set():
            await asyncio.sleep(2 * HINT_SECONDS)
        self._task.cancel()
        await asyncio.wait([self._task], timeout=5.0)
        self._task = None

    async def _run(self) -> None:
        pause = pauses()
        while True:
            connection: Connection = None
            try:
                connection = await connect(self._address, SETTINGS)
                connection.add_termination_listener(self._broken)
                await connection.add_listener(self.channel, self._heard)
                pause = pauses()
                self._connection, self._gave_up = connection, False
                self._tell()  # hints may have been missed while we were away
                await self._serve(connection)
            except Exception:  # nobody waits for this task: whatever it was, connect again
                await asyncio.sleep(MAKE_ROOM_SECONDS if self._gave_up else next(pause, 2.0))
            finally:
                self._connection = None
                if connection is not None:
                    connection.terminate()

    async def _serve(self, connection: Connection) -> None:
        pause = HINT_SECONDS
        while True:
            if not self._wanted.is_set():
                try:
                    async with asyncio.timeout(CHECK_SECONDS):
                        await self._wanted.wait()
                except TimeoutError:
                    await connection.fetchval("SELECT 1", timeout=CHECK_ANSWER_SECONDS)
                    continue
            busy = self._hints >= BUSY_RATE * pause
            self._wanted.clear()
            self._hints = 0
            try:
                await connection.execute(f'NOTIFY "{self.channel}"', timeout=CHECK_ANSWER_SECONDS)
            except BaseException:
                self._wanted.set()  # the next connection sends it
                raise
            pause = BUSY_HINT_SECONDS if busy else HINT_SECONDS
            await asyncio.sleep(pause)

    def _heard(self, connection: Connection, process: int, channel: str, payload: str) -> None:
        if connection.is_closed():
            return  # it was on its way when we left; the next connection begins by telling
        if payload == NO_ROOM:
            self._make_way()
        elif process != connection.get_server_pid():  # our own hints come back to us
            self._tell()

    def _broken(self, connection: Connection) -> None:
        self._wanted.set()  # wakes _serve, whose hint then fails and goes out by the next connection

    def _tell(self) -> None:
        for callback in list(self._callbacks):
            callback()


def is_over(task: asyncio.Task[None] | None) -> bool:
    """It has ended, or the loop has in which it ran."""
    return task is None or task.done() or task.get_loop().is_closed()
