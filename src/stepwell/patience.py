"""Patience: those who wait equally long share one timer.

Nearly every timer of ours is cancelled: the run ends, the answer comes. In a heap of timers a cancelled
one costs as much as one that fires; here it is an entry in a dict, which is in order by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Patience(Generic[K]):
    """Belongs to one event loop."""

    def __init__(self, seconds: float, give_up: Callable[[K], object]) -> None:
        self._seconds = seconds
        self._give_up = give_up
        self._until: dict[K, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, who: K, loop: asyncio.AbstractEventLoop) -> None:
        """`give_up(who)` is called after so many seconds from now, unless it ends before."""
        self._until[who] = until = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(until, self._look, loop)

    def end(self, who: K) -> None:
        self._until.pop(who, None)
        if not self._until and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """The timer was set for one who may have gone since: whose time has come, and who is next?"""
        self._timer = None
        now = loop.time()
        due = []
        for who, until in self._until.items():
            if until > now:
                self._timer = loop.call_at(until, self._look, loop)
                break
            due.append(who)
        for who in due:
            if self._until.pop(who, None) is not None:
                self._give_up(who)
