"""VirtualLoop: an asyncio loop whose time jumps, on top of a real store.

While a store call is under way, time stands still and the loop waits for its answer; otherwise time
jumps to the next timer. So a case that takes a day in virtual time takes milliseconds, on SQLite and
PostgreSQL too, and always the same virtual time.

Times are sums of floats, so times of one instant differ in their last bits. Code that acts from outside
waits until the instant is over (`instant_over`), so that a rule decides the order and not those bits.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import inspect
import itertools
import selectors
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVarTuple, cast

BEGIN = 1_800_000_000.0
_INSTANT_DIGITS = 9
# Seconds. The last bit of the store's clock, which counts from 1970, is 2e-7; cases count milliseconds.
_INSTANT = 1e-5
_Ts = TypeVarTuple("_Ts")


class Bench:
    """Counts the calls under way outside virtual time."""

    def __init__(self) -> None:
        self.calls = 0


class _Selector(selectors.SelectSelector):
    """Instead of waiting for a timer, waits for the store if it is busy, or lets time jump."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._bench = bench
        self.now = 0.0
        self.patient: deque[asyncio.Future[None]] = deque()  # waiting for the end of this instant

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        ready = super().select(0)
        if ready:
            return ready
        if self._bench.calls > 0:
            return super().select(0.05)
        if self.patient and (timeout is None or timeout > _INSTANT):
            self.patient.popleft().set_result(None)
            return super().select(0)
        if timeout is None:
            return super().select(0.05)
        self.now += timeout
        return super().select(0)


class _Timer(asyncio.TimerHandle):
    """Orders timers of one instant by when they were requested.

    A heap alone returns equals in any order, and sums of floats of one instant differ in their last bit.
    """

    place: tuple[float, int]

    def __lt__(self, other: Any) -> bool:
        return self.place < cast("_Timer", other).place


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._order = itertools.count()
        self._scheduled: list[_Timer]
        self.bench = Bench()
        self._virtual = _Selector(self.bench)
        super().__init__(self._virtual)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._virtual.now

    async def instant_over(self) -> None:
        """Wait until everything due in this instant is done, and no store call is under way."""
        waiting = self.create_future()
        self._virtual.patient.append(waiting)
        try:
            await waiting
        finally:
            if waiting in self._virtual.patient:
                self._virtual.patient.remove(waiting)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        timer.place = (round(when, _INSTANT_DIGITS), next(self._order))
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]  # so that the loop counts it when it is cancelled
        return timer


class VirtualClock:
    """The clock of the engine and of the store."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def __call__(self) -> float:
        return self.time()

    def time(self) -> float:
        return BEGIN + self._loop.time()

    def monotonic(self) -> float:
        return self._loop.time()


class Patient:
    """A store whose calls stop virtual time while they are under way."""

    polls = False  # only this process writes to it

    def __init__(self, store: Any, bench: Bench) -> None:
        self._store = store
        self._bench = bench

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._store, name)
        if not inspect.isroutine(attribute):
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = attribute(*args, **kwargs)
            return self._held(answer) if inspect.isawaitable(answer) else answer

        return call

    async def _held(self, answer: Awaitable[Any]) -> Any:
        self._bench.calls += 1
        try:
            return await answer
        finally:
            self._bench.calls -= 1


def run_virtually(main: Callable[[VirtualLoop], Any]) -> Any:
    """Run a coroutine in virtual time."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
