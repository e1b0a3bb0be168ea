"""LeaseKeeper: one heartbeat for all that this worker owns.

The lease is the worker's, not the run's: one small update every few seconds, whatever it owns. Our
own monotonic clock counts from before each heartbeat was sent; when it says that the lease may be
over, no new effect is started until the store has answered again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from stepwell.domain.commit import Owned, WorkerInfo
from stepwell.domain.ids import RunId
from stepwell.errors import StoreError
from stepwell.store.base import Store
from stepwell.system import Clock

_log = logging.getLogger("stepwell.engine")

_TELL_SECONDS = 10.0  # how often the same outage is told


class LeaseKeeper:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        info: WorkerInfo,
        *,
        heartbeat_seconds: float,
        holding: Callable[[], Mapping[tuple[RunId, str], Any]],
        owned: Callable[[Mapping[tuple[RunId, str], Any], Sequence[Owned]], None],
        reaped: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._info = info
        self._heartbeat_seconds = heartbeat_seconds
        self._holding = holding
        self._owned = owned
        self._reaped = reaped
        self._valid_until = 0.0
        self._tell_at = 0.0  # by our clock; before that we have told of the trouble
        self._nudged = asyncio.Event()
        self.stopped = False

    def valid(self) -> bool:
        """By our own clock nobody can have taken our runs yet."""
        return self._clock.monotonic() < self._valid_until

    def nudge(self) -> None:
        """Look at once whether messages came for what we own."""
        self._nudged.set()

    async def register(self, info: WorkerInfo) -> None:
        self._info = info
        sent = self._clock.monotonic()
        await self._store.register(info)
        self._valid_until = sent + info.lease_seconds

    async def leave(self) -> None:
        """Say that we are about to stop: who kills us from now on does not make our runs suspects."""
        try:
            await self.register(msgspec.structs.replace(self._info, leaving=True))
        except StoreError as error:
            _log.warning("could not say that this worker stops: %s", error.message)

    async def run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._heartbeat_seconds):
                    await self._nudged.wait()
                self._nudged.clear()
            except TimeoutError:
                pass
            await self._beat()

    async def _beat(self) -> None:
        sent = self._clock.monotonic()
        held = self._holding()  # what is claimed while we ask may be missing from the answer
        try:
            owned = await self._store.heartbeat(self._info.id)
        except StoreError as error:
            if sent >= self._tell_at:  # of an outage of hours, two lines a second would say no more
                _log.warning("heartbeat not answered: %s", error.message)
                self._tell_at = sent + _TELL_SECONDS
            await asyncio.sleep(min(0.5, self._heartbeat_seconds / 4))
            self._nudged.set()  # the lease goes on running out: ask again now, not a period later
            return
        self._tell_at = 0.0
        if self.stopped:
            return
        if owned is None:
            _log.warning("worker %s lost its lease; its runs go on elsewhere", self._info.id)
            self._valid_until = 0.0
            await self._reaped()
        else:
            self._valid_until = sent + self._info.lease_seconds
            self._owned(held, owned)
