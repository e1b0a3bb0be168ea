"""Streams: how many are open, which of them must end, and whether the server is about to stop."""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import HTTPConnection

from stepwell.errors import StepwellError
from stepwell.server.access import Access
from stepwell.server.refusal import Refusal
from stepwell.store.wakeups import Watch

STREAMS_MAX = 1000
FEW = 20  # streams that a workspace can open although others have nearly all
RECHECK = 15.0  # seconds between checks that a reader's key is still valid
_GOODBYE = 2.0  # seconds that rooms get to say where to resume


class Streams:
    def __init__(self, most: int = STREAMS_MAX) -> None:
        self._most = most
        self.open = 0
        self.sockets = 0
        self._of: Counter[str] = Counter()  # by workspace
        self.drained = asyncio.Event()
        self._watches: weakref.WeakSet[Watch] = weakref.WeakSet()

    def watching(self, watch: Watch) -> Watch:
        """Note what streams wait for, so that a drain wakes them."""
        self._watches.add(watch)
        return watch

    @property
    def draining(self) -> bool:
        return self.drained.is_set()

    def begin(self) -> None:
        """Start serving again, on the current event loop."""
        self.drained = asyncio.Event()

    def check_room(self, workspace: str) -> None:
        """Refuse one more stream; the last fifth is kept for workspaces that have few."""
        kept = self._most // 5 if self._of[workspace] >= FEW else 0
        if self.open >= self._most - kept:
            raise Refusal(
                429,
                "STREAM_LIMIT",
                f"{self.open} streams are open",
                hint="follow several runs with one stream: /api/v1/stream?topics=run:ID,run:ID",
                headers={"Retry-After": "5"},
            )

    @contextmanager
    def counted(self, workspace: str, *, socket: bool = False) -> Iterator[None]:
        self.open += 1
        self.sockets += socket
        self._of[workspace] += 1
        try:
            yield
        finally:
            self.open -= 1
            self.sockets -= socket
            self._of[workspace] -= 1
            self._of += Counter()  # without those that have none

    def drain(self) -> None:
        """End all streams with a hint where to resume."""
        self.drained.set()
        for watch in list(self._watches):
            watch.notify()

    async def sockets_ended(self) -> None:
        """Wait until the sockets have ended. A listener would cut them off."""
        left = _GOODBYE
        while self.sockets and left > 0:
            await asyncio.sleep(0.02)
            left -= 0.02


async def expelled(access: Access, connection: HTTPConnection) -> None:
    """Return when the credentials of an open stream stop being valid."""
    while True:
        await asyncio.sleep(RECHECK)
        try:
            await access.authenticate(connection)
        except Refusal:
            return
        except StepwellError:  # the database is away, which the stream notices by itself
            continue
