"""Notifier: wakes the tasks of this process that wait for a change.

A notification is a hint and may be missed: every waiter also looks again by itself now and then.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from stepwell.domain.ids import RunId
from stepwell.domain.status import Status
from stepwell.errors import WorkerBroken
from stepwell.shared_timeout import SharedTimeout


class Ended(NamedTuple):
    status: Status
    output: bytes | None
    error: bytes | None


class Watch:
    """Wakes the tasks that wait for one run: at its end and, if the run is `followed`, at every event."""

    __slots__ = ("__weakref__", "_timeouts", "_waiters", "ended", "news")

    def __init__(self, timeouts: dict[float, SharedTimeout[asyncio.Future[None]]]) -> None:
        self._timeouts = timeouts  # by seconds, shared by all watches of a notifier
        self.ended: Ended | None = None
        self.news = 0  # counts notifications: read it before looking, pass it to `wait`
        self._waiters: list[asyncio.Future[None]] = []

    def notify(self) -> None:
        self.news += 1
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, seconds: float, seen: int) -> None:
        """Wait until `news` has passed `seen`, at most for that many seconds."""
        if self.news != seen:
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.append(waiter)
        timeout = self._timeouts.get(seconds)
        if timeout is None:
            timeout = self._timeouts[seconds] = SharedTimeout(seconds, _let_go)
        timeout.begin(waiter, loop)
        try:
            await waiter
        finally:
            timeout.end(waiter)


def _let_go(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Notifier:
    def __init__(self) -> None:
        self._watches: weakref.WeakValueDictionary[RunId, Watch] = weakref.WeakValueDictionary()
        self._timeouts: dict[float, SharedTimeout[asyncio.Future[None]]] = {}
        self._workers: list[Callable[[RunId | None], None]] = []
        self._hint: Callable[[], None] = lambda: None  # notifies the other processes
        self._hinting = False
        self.followed: dict[RunId, int] = {}  # runs of which every event is notified
        self._failure: BaseException | None = None  # what ended this process' worker

    def watch(self, run_id: RunId) -> Watch:
        watch = self._watches.get(run_id)
        if watch is None:
            watch = self._watches[run_id] = Watch(self._timeouts)
        return watch

    def on_work(self, callback: Callable[[RunId | None], None]) -> Callable[[], None]:
        """Call back when a ticket of this run (None: some run) may be due or have a message."""
        self._workers.append(callback)
        return lambda: self._workers.remove(callback)

    def forward_to(self, hint: Callable[[], None]) -> None:
        """Notify the other processes with `hint`, too."""
        self._hint = hint

    def notify_work(self, run_id: RunId | None = None) -> None:
        """Say that there may be something to do, here or elsewhere."""
        for callback in self._workers:
            callback(run_id)
        self._forward()

    def _forward(self) -> None:
        self._hinting = True
        try:
            self._hint()
        finally:
            self._hinting = False

    def notify_run(self, run_id: RunId) -> None:
        """Say that the run's log grew."""
        watch = self._watches.get(run_id) if run_id in self.followed else None
        if watch is not None:
            watch.notify()

    @contextmanager
    def following(self, run_id: RunId) -> Iterator[None]:
        """Inside the block every event of the run is notified, not only its end."""
        self.followed[run_id] = self.followed.get(run_id, 0) + 1
        try:
            yield
        finally:
            self.followed[run_id] -= 1
            if not self.followed[run_id]:
                del self.followed[run_id]

    def notify_end(self, run_id: RunId, ended: Ended) -> None:
        watch = self._watches.get(run_id)
        if watch is not None:
            watch.ended = ended
            watch.notify()
        self._forward()

    def fail(self, error: BaseException) -> None:
        """Say that this process' worker stopped: its waiters would wait in vain."""
        self._failure = error
        for watch in list(self._watches.values()):
            watch.notify()

    def clear(self) -> None:
        """Forget the failure: there is another worker."""
        self._failure = None

    def check(self) -> None:
        """Raise WorkerBroken if the worker of this process has failed."""
        if self._failure is not None:
            raise WorkerBroken(f"the worker of this process stopped: {self._failure!r}") from self._failure

    def on_remote(self) -> None:
        """Wake everyone: another process hinted."""
        if self._hinting:
            return  # the memory store's hints come back to their sender
        for callback in self._workers:
            callback(None)
        for watch in list(self._watches.values()):
            watch.notify()
