"""Sweeper: frees what lost workers owned. Every worker sweeps; the store makes that safe."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from stepwell.domain.commit import Reaped
from stepwell.errors import StoreError
from stepwell.store.base import Store

_log = logging.getLogger("stepwell.engine")


class Reaper:
    def __init__(self, store: Store, *, reap_seconds: float, swept: Callable[[Reaped], None]) -> None:
        self._store = store
        self._reap_seconds = reap_seconds
        self._swept = swept

    async def run(self) -> None:
        while True:
            await self.sweep()
            await asyncio.sleep(self._reap_seconds)

    async def sweep(self) -> None:
        try:
            reaped = await self._store.reap()
        except StoreError as error:
            _log.warning("sweep not answered: %s", error.message)
            return
        if reaped.workers or reaped.tickets:
            _log.info("took back %d tickets of %d lost workers", reaped.tickets, reaped.workers)
        self._swept(reaped)
