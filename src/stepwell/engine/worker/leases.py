"""Leases: keep our own alive, and free what lost workers owned.

A lease is the worker's, not the run's: one small update every few seconds, no matter how much it owns. Our
own monotonic clock counts from before each heartbeat was sent; once it says that the lease may have expired,
no new effect begins until the store has answered again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from stepwell.domain.commit import Owned, Reaped, WorkerInfo
from stepwell.domain.ids import RunId
from stepwell.errors import StoreError
from stepwell.store.base import Store
from stepwell.system import Clock

_log = logging.getLogger("stepwell.engine")

_LOG_SECONDS = 10.0  # how often the same outage is logged


class LeaseKeeper:
    """One heartbeat for everything that this worker owns."""

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
        self._log_at = 0.0  # by our clock; until then the current outage is not logged again
        self._nudged = asyncio.Event()
        self.draining = asyncio.Event()  # set when this worker is asked to stop
        self.stopped = False

    def valid(self) -> bool:
        """Whether by our own clock nobody can have taken our runs yet."""
        return self._clock.monotonic() < self._valid_until

    def nudge(self) -> None:
        """Check at once whether messages came for our runs."""
        self._nudged.set()

    async def register(self, info: WorkerInfo) -> None:
        self._info = info
        sent = self._clock.monotonic()
        await self._store.register(info)
        self._valid_until = sent + info.lease_seconds

    async def leave(self) -> None:
        """Announce that we are about to stop: if we are killed now, our runs do not become suspects."""
        try:
            await self.register(msgspec.structs.replace(self._info, leaving=True))
        except StoreError as error:
            _log.warning("could not announce that this worker stops: %s", error.message)

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
        held = self._holding()  # a run claimed while we ask may be missing from the answer
        try:
            beat = await self._store.heartbeat(self._info.id)
        except StoreError as error:
            if sent >= self._log_at:  # in an outage of hours, two lines a second would not say more
                _log.warning("heartbeat not answered: %s", error.message)
                self._log_at = sent + _LOG_SECONDS
            await asyncio.sleep(min(0.5, self._heartbeat_seconds / 4))
            self._nudged.set()  # the lease keeps running out: ask again now, not a period later
            return
        self._log_at = 0.0
        if self.stopped:
            return
        if beat is None:
            _log.warning("worker %s lost its lease; its runs continue elsewhere", self._info.id)
            self._valid_until = 0.0
            await self._reaped()
        else:
            self._valid_until = sent + self._info.lease_seconds
            self._owned(held, beat.owned)
            if beat.draining:
                self.draining.set()


class Reaper:
    """Frees the tickets of lost workers. Every worker does this; the store makes that safe."""

    def __init__(self, store: Store, *, every_seconds: float, reaped: Callable[[Reaped], None]) -> None:
        self._store = store
        self._every_seconds = every_seconds
        self._reaped = reaped

    async def run(self) -> None:
        while True:
            await self.reap()
            await asyncio.sleep(self._every_seconds)

    async def reap(self) -> None:
        try:
            reaped = await self._store.reap()
        except StoreError as error:
            _log.warning("reaping not answered: %s", error.message)
            return
        if reaped.workers or reaped.tickets:
            _log.info("freed %d tickets of %d lost workers", reaped.tickets, reaped.workers)
        self._reaped(reaped)
