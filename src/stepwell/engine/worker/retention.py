"""Retention: removes runs that ended and events that were emitted long ago, a page at a time, so that
work goes on beside it.

Every worker does it; what one has locked the others leave alone. A tree of runs goes as a whole, never
while one of them lives.
"""

from __future__ import annotations

import asyncio
import logging

from stepwell.errors import StoreError
from stepwell.store.base import PURGE_PAGE, Store

_log = logging.getLogger("stepwell.engine")

_PASS_SECONDS_MAX = 60.0
_PAUSE = 0.02  # seconds between two pages: others get their turn


class Retention:
    def __init__(self, store: Store, *, keep_seconds: float) -> None:
        self._store = store
        self._keep_seconds = keep_seconds

    async def run(self) -> None:
        """A run is gone at most a minute, or a tenth of its age, after its time."""
        while True:
            await self.sweep()
            await asyncio.sleep(min(_PASS_SECONDS_MAX, self._keep_seconds / 10))

    async def sweep(self) -> int:
        """One walk over all runs that are old enough; how many it removed."""
        removed, after = 0, ""
        try:
            while True:
                purged = await self._store.purge(self._keep_seconds, after=after)
                removed += purged.runs
                if purged.after is None:
                    break
                after = purged.after
                await asyncio.sleep(_PAUSE)
            await self._forget_events()
        except StoreError as error:
            _log.warning("old runs could not be removed: %s", error.message)
        if removed:
            _log.info("removed %d runs that ended more than %g s ago", removed, self._keep_seconds)
        return removed

    async def _forget_events(self) -> None:
        while True:
            removed = await self._store.purge_events(self._keep_seconds)
            if removed < PURGE_PAGE:
                return
            await asyncio.sleep(_PAUSE)
