"""Start rates: how many runs may be started in a while, by workflow and by user.

Looked at before a run is made, and outside the engine: a guardrail for those who call, not a promise about
runs. The windows are those of one process; whoever serves from several gives them a shared `Windows`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

from stepwell.errors import InvalidInput, RateLimited

_log = logging.getLogger("stepwell.client")

_SWEEP_EVERY = 1000  # takes between two looks for windows that are empty


class StartRate(NamedTuple):
    """At most `most` starts in any `seconds`, of each workflow or by each user."""

    per: Literal["workflow", "user"]
    most: int
    seconds: float = 60.0


class Window(NamedTuple):
    name: str
    most: int
    seconds: float


class Windows(Protocol):
    async def take(self, windows: Sequence[Window], count: int) -> tuple[Window, float] | None:
        """Count so many starts in all of these windows; or in none: which is full, and for how long."""
        ...


class OwnWindows:
    """Sliding windows in this process: the time of each start that still counts."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._starts: dict[Window, deque[float]] = {}
        self._takes = 0

    async def take(self, windows: Sequence[Window], count: int) -> tuple[Window, float] | None:
        now = self._clock()
        self._sweep(now)
        found = [self._current(window, now) for window in windows]
        for window, starts in zip(windows, found, strict=True):
            too_many = len(starts) + count - window.most
            if too_many > 0:
                # When so many of the oldest are out of the window; more than it ever holds: a whole window.
                last = starts[too_many - 1] if too_many <= len(starts) else now
                return window, last + window.seconds - now
        for window, starts in zip(windows, found, strict=True):
            starts.extend([now] * count)
            self._starts[window] = starts
        return None

    def _current(self, window: Window, now: float) -> deque[float]:
        starts = self._starts.get(window, deque())
        while starts and starts[0] <= now - window.seconds:
            starts.popleft()
        return starts

    def _sweep(self, now: float) -> None:
        self._takes += 1
        if self._takes % _SWEEP_EVERY == 0:
            for window in list(self._starts):
                if not self._current(window, now):
                    del self._starts[window]


class StartGate:
    """Whether a caller may start runs now."""

    def __init__(self, rates: Sequence[StartRate], windows: Windows) -> None:
        for rate in rates:
            if rate.per not in ("workflow", "user") or rate.most < 1 or rate.seconds <= 0:
                raise InvalidInput(f"{rate} is no rate", hint='StartRate("workflow", 60, seconds=60)')
        self._rates = tuple(rates)
        self._windows = windows

    async def check(self, workspace: str, workflow: str, user: str, count: int) -> None:
        """RateLimited when it is too much. If that cannot be told, callers we know may go on."""
        names = {"workflow": f"workflow {workspace}/{workflow}", "user": f"user {workspace}/{user}"}
        windows = [
            Window(names[rate.per], rate.most, rate.seconds)
            for rate in self._rates
            if rate.per == "workflow" or user
        ]
        try:
            full = await self._windows.take(windows, count)
        except Exception as error:
            _log.warning("start rates cannot be looked at: %r", error)
            if user:
                return
            raise RateLimited(
                "start rates cannot be looked at, and the caller is not known",
                retry_after=1.0,
                hint="try again, or start with user=",
            ) from error
        if full is not None:
            window, wait = full
            raise RateLimited(
                f"{window.name} may start {window.most} runs in {window.seconds:g} s; no run was started",
                retry_after=wait,
                hint=f"try again in {wait:.1f} s",
            )
