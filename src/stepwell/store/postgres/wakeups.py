"""Wakeups: hints between processes by LISTEN and NOTIFY, over a connection of their own.

Notifications are coalesced: one statement in 5 ms from a process, the first at once, and one in 20 ms from a
very busy process. They are never part of a transaction that does work, because notifying commits take turns
in the whole database. A lost hint only costs latency: every worker looks again by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable

from stepwell.store.followers import ASK, WORK
from stepwell.store.postgres.pool.budget import MAKE_ROOM_SECONDS
from stepwell.store.postgres.pool.connection import ENGINE_SETTINGS, Connection, connect, pauses
from stepwell.store.postgres.pool.dsn import Address

HINT_SECONDS = 0.005
BUSY_HINT_SECONDS = 0.02
BUSY_RATE = 800.0  # hints a second
CHECK_SECONDS = 10.0  # between checks that the connection still works
CHECK_ANSWER_SECONDS = 5.0
_QUOTE = "'"
NO_ROOM = "no room"  # the payload from an engine that has no connection for a kind of its work
# NOTIFY writes to the server's log too, but a hint may be lost: do not wait for the disk.
SETTINGS = ENGINE_SETTINGS | {"synchronous_commit": "off"}


class NotifyWakeups:
    """`make_way` is called when another engine has too few connections."""

    def __init__(self, address: Address, make_way: Callable[[], object]) -> None:
        self._address = address
        self._make_way = make_way
        self.channel = f"stepwell_{address.schema}"[:63]
        self._callbacks: list[Callable[[str], None]] = []
        self._wanted: asyncio.Event = asyncio.Event()  # a hint is to be sent
        self._hints = 0  # since the last NOTIFY
        self._texts: dict[str, None] = {}  # without duplicates
        self._task: asyncio.Task[None] | None = None
        self._is_open = False
        self._connection: Connection = None
        self._gave_up = False

    def open(self) -> None:
        self._is_open = not self._address.poll_only
        if is_over(self._task):
            self._task, self._wanted = None, asyncio.Event()  # both belong to a loop
        if self._callbacks:
            self._begin()

    def hears(self) -> bool:
        return self._connection is not None

    def listen(self, callback: Callable[[str], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        self._begin()

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._callbacks.remove(callback)

        return stop

    def hint(self, text: str = "") -> None:
        if self._is_open:
            self._hints += 1
            self._texts[text] = None
            self._wanted.set()
            self._begin()

    def give_up(self) -> bool:
        """Close the connection, so that somebody else can connect; it is opened again after a pause."""
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
        """Stop; a hint from just before is still sent, if that is possible at once."""
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
                await connection.add_listener(self.channel, self._on_notification)
                pause = pauses()
                self._connection, self._gave_up = connection, False
                self._notify(WORK)  # hints may have been missed while we were not connected
                self._notify(ASK)
                if self._callbacks:
                    self.hint(ASK)
                await self._serve(connection)
            except Exception:  # nobody awaits this task: connect again after any error
                await asyncio.sleep(MAKE_ROOM_SECONDS if self._gave_up else next(pause, 2.0))
            finally:
                if self._connection is not None:
                    self._connection = None
                    self._notify(WORK)  # those who relied on hints look by themselves from now on
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
            self._hints, texts, self._texts = 0, self._texts, {}
            try:
                await connection.execute(self._statement(texts), timeout=CHECK_ANSWER_SECONDS)
            except BaseException:
                self._texts |= texts  # sent by the next connection
                self._wanted.set()
                raise
            pause = BUSY_HINT_SECONDS if busy else HINT_SECONDS
            await asyncio.sleep(pause)

    def _statement(self, texts: Iterable[str]) -> str:
        """Build one statement and transaction for any number of hints."""
        return ";".join(
            f'NOTIFY "{self.channel}"' + (f", '{text.replace(_QUOTE, 2 * _QUOTE)}'" if text else "")
            for text in texts or [WORK]
        )

    def _on_notification(self, connection: Connection, process: int, channel: str, payload: str) -> None:
        if connection.is_closed():
            return  # it was on its way when we left; the next connection begins with a notification
        if payload == NO_ROOM:
            self._make_way()
        elif process != connection.get_server_pid():  # our own hints come back to us
            self._notify(payload)

    def _broken(self, connection: Connection) -> None:
        self._wanted.set()  # wakes _serve: its hint fails and is sent by the next connection

    def _notify(self, text: str) -> None:
        for callback in list(self._callbacks):
            callback(text)


def is_over(task: asyncio.Task[None] | None) -> bool:
    """True if the task has ended, or its loop is closed."""
    return task is None or task.done() or task.get_loop().is_closed()
