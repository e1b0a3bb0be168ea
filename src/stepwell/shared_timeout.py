"""Patience: those who wait equally long share one timer.

Nearly every timer of ours is cancelled: the run ends, the answer comes. In a heap of timers a cancelled
one costs as much as one that fires; here it is an entry in a dict, which is in order by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class SharedTimeout(Generic[K]):
    """Belongs to one event loop, and to another only after that one was closed."""

    def __init__(self, seconds: float, give_up: Callable[[K], object]) -> None:
        self._seconds = seconds
        self._give_up = give_up
        self._until: dict[K, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, who: K, loop: asyncio.AbstractEventLoop) -> None:
        """`give_up(who)` is called after so many seconds from now, unless it ends before."""
        if loop is not self._loop:
            if self._loop is not None and self._loop.is_closed():  # nobody wakes who waited in it
                self._until.clear()
                self._timer = None
            self._loop = loop
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
        now = loop.time()
        due = []
        for who, until in self._until.items():
            if until > now:
                break
            due.append(who)
        try:
            for who in due:
                if self._until.pop(who, None) is not None:
                    self._give_up(who)
        finally:  # also when one of them failed: the others do not wait for it
            if self._timer is not None:
                self._timer.cancel()
            following = next(iter(self._until.values()), None)
            self._timer = None if following is None else loop.call_at(following, self._look, loop)
