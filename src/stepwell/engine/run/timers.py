"""Timers: when the paths of one activation must be looked at, by the store's clock.

Our own clock only measures how long ago the store reported its time, so no timer is early, however wrong
this machine's clock is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from stepwell.domain.commit import NEVER
from stepwell.engine.run.journal import Journal
from stepwell.engine.run.services import Expires, Services
from stepwell.shared_timeout import SharedTimeout


class Timers:
    def __init__(self, services: Services, now: float, fired: Callable[[], None]) -> None:
        self._services = services
        self._reported = now
        self._reported_mark = services.clock.monotonic()
        self._fired = fired
        self._handle: asyncio.TimerHandle | None = None
        self._wakes_at = 0.0
        self._limit: SharedTimeout[Expires] | None = None
        self._timed_out: Callable[[], None] = _unheard
        self.claimed_at = now
        self.dues: dict[str, float] = {}
        self.limit_at = NEVER  # when the run's own timeout is over, if it works until then
        self.held = False  # the run is about to be given back: what is due is the next owner's

    def now(self) -> float:
        """The store's time, never ahead of it: what it reported plus what we have counted since."""
        return self._reported + self._services.clock.monotonic() - self._reported_mark

    @property
    def seconds_held(self) -> float:
        """How long this owner has had the run."""
        return self._services.clock.monotonic() - self._reported_mark

    @property
    def soonest(self) -> float:
        return min(self.dues.values(), default=NEVER)

    def next_due(self) -> str | None:
        """The path whose time came first; None: no path is due yet."""
        if not self.dues or self.held:
            return None
        path = min(self.dues, key=self.dues.__getitem__)
        return path if self.dues[path] <= self.now() else None

    def wake_in(self, seconds: float) -> None:
        """The lease is kept for a short wait: look again by ourselves."""
        self.stop()
        self._wakes_at = self.now() + seconds
        self._handle = self._services.loop.call_later(max(0.0, seconds), self._fire)

    def watch(self) -> None:
        """Something of the run is under way, so it does not park; what is due meanwhile must not wait."""
        if self.dues:
            soonest = self.soonest
            if self._handle is None or soonest < self._wakes_at:
                self.wake_in(soonest - self.now())

    def limit_run(self, journal: Journal, timed_out: Callable[[float], None]) -> None:
        """Arm the run's timeout, less what this generation was active before."""
        limit = journal.accepted.timeout
        self.unlimit_run()
        if limit is not None:
            left = max(0.0, limit - journal.active_seconds)
            self.limit_at = self.now() + left
            self._timed_out = partial(timed_out, limit)
            self._limit = self._services.limits.of(left, shared=left == limit)
            self._limit.begin(self, self._services.loop)

    def unlimit_run(self) -> None:
        """The run's own timeout no longer counts."""
        self.limit_at = NEVER
        if self._limit is not None:
            self._limit.end(self)
            self._limit = None

    def ran_out(self) -> None:
        self._timed_out()

    def _fire(self) -> None:
        self._handle = None
        self._fired()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def close(self) -> None:
        self.stop()
        self.unlimit_run()
        self._fired = self._timed_out = _unheard


def _unheard() -> None:
    pass
