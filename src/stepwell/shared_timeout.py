"""SharedTimeout: one timer for all waits of the same length.

Nearly every timeout is cancelled, because the run ends or the answer arrives. In a heap of timers a
cancelled timer costs as much as one that fires; here it is an entry in a dict, which keeps its order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class SharedTimeout(Generic[K]):
    """Belongs to one event loop; to another only after the first was closed."""

    def __init__(self, seconds: float, on_timeout: Callable[[K], object]) -> None:
        self._seconds = seconds
        self._on_timeout = on_timeout
        self._until: dict[K, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, waiter: K, loop: asyncio.AbstractEventLoop) -> None:
        """Call `on_timeout(waiter)` when its time is over, unless `end` comes first."""
        if loop is not self._loop:
            if self._loop is not None and self._loop.is_closed():  # nothing can wake the waiters of that loop
                self._until.clear()
                self._timer = None
            self._loop = loop
        self._until[waiter] = until = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(until, self._look, loop)

    def end(self, waiter: K) -> None:
        self._until.pop(waiter, None)
        if not self._until and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Time out the waiters that are due, and set the timer for the next one."""
        now = loop.time()
        due = []
        for waiter, until in self._until.items():
            if until > now:
                break
            due.append(waiter)
        try:
            for waiter in due:
                if self._until.pop(waiter, None) is not None:
                    self._on_timeout(waiter)
        finally:  # a failing callback must not hold up the other waiters
            if self._timer is not None:
                self._timer.cancel()
            following = next(iter(self._until.values()), None)
            self._timer = None if following is None else loop.call_at(following, self._look, loop)
