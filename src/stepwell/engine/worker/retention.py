"""Retention: removes runs and events that are old enough, a page at a time, so that other work continues.

Every worker does this; each skips what another has locked. A tree of runs is removed as a whole, and never
while one of its runs is live.
"""

from __future__ import annotations

import asyncio
import logging

from stepwell.errors import StoreError
from stepwell.store.base import PURGE_PAGE, Store

_log = logging.getLogger("stepwell.engine")

_PASS_SECONDS_MAX = 60.0
_PAUSE = 0.02  # seconds between two pages, for other work


class Retention:
    def __init__(self, store: Store, *, keep_seconds: float) -> None:
        self._store = store
        self._keep_seconds = keep_seconds

    async def run(self) -> None:
        """Remove each run at most a minute, or a tenth of the retention time, after it is due."""
        while True:
            await self.sweep()
            await asyncio.sleep(min(_PASS_SECONDS_MAX, self._keep_seconds / 10))

    async def sweep(self) -> int:
        """Remove all runs that are old enough; returns how many."""
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
