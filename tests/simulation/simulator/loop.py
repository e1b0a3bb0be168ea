"""SimLoop: an event loop with several processes inside, virtual time and a seeded scheduler.

The seed decides which process runs next; time jumps to the next timer when no process can run.
The handles that a process schedules belong to it, so a crash simply never runs them again
(no `finally`, like a power cut), and a freeze runs them later.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

Ts = TypeVarTuple("Ts")
T = TypeVar("T")
_SPIN_MAX = 200_000  # handles without time passing: code runs in circles


class Stalled(Exception):
    """Nothing can ever happen again, or time stands still while code runs in circles."""


class Process:
    """One operating system process, as the loop sees it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[asyncio.Handle] = deque()
        self.frozen = False
        self.dead = False
        self.kept: list[object] = []  # left by a crash: collecting it would run its `finally`

    def __repr__(self) -> str:
        return f"<process {self.name}>"


class SimLoop(asyncio.AbstractEventLoop):
    def __init__(self, rng: random.Random, *, shuffles: bool = False) -> None:
        self._random = rng.random
        self._shuffles = shuffles  # also between the tasks of one process
        self._now = 0.0
        self._timers: list[tuple[float, float, int, asyncio.TimerHandle, Process]] = []
        self._awake: list[Process] = []  # processes that can run right now
        self.root = Process("world")
        self.current = self.root
        self.handles = 0
        self._count = 0
        self.errors: list[str] = []

    # Processes

    def spawn(self, process: Process, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task in another process."""
        outer, self.current = self.current, process
        try:
            return asyncio.Task(work, loop=self)
        finally:
            self.current = outer

    def later_in(self, process: Process, seconds: float, call: Callable[[], object]) -> None:
        """Something arrives at another process."""
        outer, self.current = self.current, process
        try:
            self.call_later(seconds, call)
        finally:
            self.current = outer

    def crash(self, process: Process) -> None:
        """Power cut: none of its code runs again, not even its `finally`."""
        process.dead = True
        process.kept.extend(asyncio.all_tasks(self))
        process.kept.extend(process.ready)
        process.ready.clear()
        if process in self._awake:
            self._awake.remove(process)

    def freeze(self, process: Process) -> None:
        process.frozen = True
        if process in self._awake:
            self._awake.remove(process)

    def thaw(self, process: Process) -> None:
        if process.frozen:
            process.frozen = False
            if process.ready and not process.dead:
                self._awake.append(process)

    # Running

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run until `main` is done, then leave everything else where it is."""
        events._set_running_loop(self)
        try:
            task = self.spawn(self.root, main)
            spun, then = 0, self._now
            while not task.done():
                self._run_once()
                spun += 1
                if self._now != then:
                    spun, then = 0, self._now
                elif spun > _SPIN_MAX:
                    raise Stalled(f"{spun} handles at {self._now:.3f} s: {self.current.name} runs in circles")
            return task.result()
        finally:
            events._set_running_loop(None)

    def _run_once(self) -> None:
        awake = self._awake
        if not awake:
            self._pass_time()
            return
        index = int(self._random() * len(awake)) if len(awake) > 1 else 0
        process = awake[index]
        ready = process.ready
        if self._shuffles and len(ready) > 1:
            place = int(self._random() * len(ready))
            ready[0], ready[place] = ready[place], ready[0]
        handle = ready.popleft()
        if not ready:
            awake[index] = awake[-1]
            awake.pop()
        if not handle._cancelled:  # `cancelled()` would cost a call each
            self.current = process
            self.handles += 1
            handle._run()
            self.current = self.root

    def _pass_time(self) -> None:
        """Jump to the next timer; cancelled ones and those of dead processes do not count."""
        timers = self._timers
        while timers:
            when, _, _, handle, process = heapq.heappop(timers)
            if process.dead:
                process.kept.append(handle)
            elif not handle.cancelled():
                self._now = max(self._now, when)
                self._put(process, handle)
                if not process.frozen:
                    break
        else:
            raise Stalled("nothing will ever happen again")
        while timers and timers[0][0] <= self._now:
            _, _, _, handle, process = heapq.heappop(timers)
            if process.dead:
                process.kept.append(handle)
            elif not handle.cancelled():
                self._put(process, handle)

    def _put(self, process: Process, handle: asyncio.Handle) -> None:
        if process.dead:
            process.kept.append(handle)
            return
        if not process.ready and not process.frozen:
            self._awake.append(process)
        process.ready.append(handle)

    # The interface that asyncio expects

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._put(self.current, handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + max(0.0, delay), callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        # Timers of one instant fire in a random order between processes, in order within one.
        heapq.heappush(self._timers, (when, 0.0, self._count, handle, self.current))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.errors.append(f"{self.current.name}: {context.get('message')}: {error!r}")

    # The end

    def dispose(self) -> None:
        """Close everything that is left, so that collecting it prints and runs nothing."""
        outer = events._get_running_loop()
        events._set_running_loop(self)  # cleanup code that asks for a loop must not get a real one
        try:
            for task in asyncio.all_tasks(self):
                close_quietly(task)
        finally:
            events._set_running_loop(outer)
        self._timers.clear()
        self._awake.clear()


def close_quietly(task: asyncio.Task[Any]) -> None:
    """Close a task that will never run again, even if its code objects."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is pending on purpose
    coroutine = task.get_coro()
    for _ in range(20):
        try:
            coroutine.close()
            return
        except BaseException:  # its cleanup awaits again, or raises: it has ended all the same
            continue
