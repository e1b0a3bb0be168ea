"""ConnectionSlot: holds one connection, which is opened when it is first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from stepwell.store.base import closed
from stepwell.store.postgres.pool.connection import ANSWER_SECONDS, Connection
from stepwell.store.postgres.pool.dsn import Address

REPLAN_SECONDS = 1.0
REPLAN_USES = 64
CLOSE_SECONDS = 2.0


class ConnectionSlot:
    __slots__ = (
        "_address",
        "_connect",
        "_connection",
        "_loop",
        "_planned_at",
        "_uses",
        "closed",
        "looks",
        "used",
    )

    def __init__(self, address: Address, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._address = address
        self._connect = connect
        self._connection: Connection = None
        self._loop: asyncio.AbstractEventLoop | None = None  # the connection's
        self.closed = False
        self.used = False  # since the last look
        self.looks = 0  # consecutive looks at which it was unused
        self._planned_at = 0.0
        self._uses = 0

    async def connection(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            if self.closed:
                raise closed(database=self._address.redacted)
            self._connection = await self._connect()
            self._loop = asyncio.get_running_loop()
        self.used = True
        self._uses += 1
        if self._uses >= REPLAN_USES and not self._address.poll_only:
            await self._discard_plans()
        return self._connection

    async def _discard_plans(self) -> None:
        """Forget plans now and then: plans made on empty tables are bad for full ones.

        The server does so itself when it analyzes a table, which may be a minute and 100,000 rows
        too late. Planning both commit statements again takes 0.75 ms.
        """
        now = asyncio.get_running_loop().time()
        if now - self._planned_at > REPLAN_SECONDS:
            self._planned_at, self._uses = now, 0
            await self._connection.execute("DISCARD PLANS")

    @property
    def connected(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    def give_up(self) -> Connection:
        """Hand the connection over to the caller."""
        connection, self._connection = self._connection, None
        return connection

    def open(self) -> None:
        self.closed = False
        if self._loop is not None and self._loop.is_closed():
            self._connection = self._loop = None  # it died with its loop

    async def clean(self) -> None:
        """Remove what a user's code left: transactions, settings, cursors."""
        try:
            if self.connected:
                await self._connection.reset(timeout=ANSWER_SECONDS)
        except asyncio.CancelledError:
            self.drop()
            raise
        except Exception:
            self.drop()

    def drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def close(self) -> None:
        if self.connected:
            await close(self.give_up())


async def close(connection: Connection) -> None:
    try:
        await connection.close(timeout=CLOSE_SECONDS)
    except Exception:
        connection.terminate()
