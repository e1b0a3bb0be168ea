"""Scheduler: starts the runs of schedules that are due, and sleeps exactly until the next one is.

Every worker has one; each takes what the others have not locked. A schedule that another process creates is
noticed within a second, by its hint, or at the next look without one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from stepwell.domain.ids import Ids
from stepwell.domain.triggers.scheduled_runs import ScheduledRuns
from stepwell.engine.worker.next_look import NextLook
from stepwell.errors import StoreError
from stepwell.store.base import Store
from stepwell.system import Clock

_log = logging.getLogger("stepwell.engine")

_TAKEN_SECONDS = 0.05  # another scheduler has locked what is due, so ask again soon
_PAUSE_MAX = 2.0
_IDLE_POLLS = 3  # rarer than a claimer's: hints are hardly ever missed


class Scheduler:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        *,
        poll_seconds: float,
        payload_bytes_max: int,
        started: Callable[[], None],
    ) -> None:
        self._store = store
        self._runs = ScheduledRuns(ids, payload_bytes_max)
        self._poll_seconds = poll_seconds if store.polls else poll_seconds * _IDLE_POLLS
        self._started = started
        self.next_look = NextLook(clock)
        self.stopped = False

    async def run(self) -> None:
        pause = 0.05
        while not self.stopped:
            try:
                seconds = await self.look()
                pause = 0.05
            except StoreError as error:
                _log.warning("schedules could not be checked: %s", error.message)
                seconds, pause = pause, min(pause * 2, _PAUSE_MAX)
            except Exception:  # nothing was written, and the worker has other work
                _log.exception("schedules were not looked at")
                seconds, pause = pause, min(pause * 2, _PAUSE_MAX)
            await self.next_look.sleep(seconds)

    async def look(self) -> float:
        """Fire what is due, and return the seconds until the next look."""
        self.next_look.begin()
        fired = await self._store.fire_due(self._runs.fire)
        if fired.runs:
            self._started()
        if fired.triggers:
            _log.debug("%d schedules were due and started %d runs", fired.triggers, len(fired.runs))
        if fired.next_in is None:
            return self._poll_seconds
        if fired.next_in <= 0:
            return 0.0 if fired.triggers else _TAKEN_SECONDS
        return min(fired.next_in, self._poll_seconds)
