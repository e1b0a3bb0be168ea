"""Notifier: who in this process wants to know that something changed.

A hint, never data one must not miss: whoever waits also looks again by itself now and then.
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
    """Somebody's interest in one run: in its end, and, where it is `followed`, in every event."""

    __slots__ = ("__weakref__", "_patience", "_waiters", "ended", "news")

    def __init__(self, patience: dict[float, SharedTimeout[asyncio.Future[None]]]) -> None:
        self._patience = patience  # by seconds, shared by all watches of a notifier
        self.ended: Ended | None = None
        self.news = 0  # counts what happened; read it before you look, give it to `wait`
        self._waiters: list[asyncio.Future[None]] = []

    def stir(self) -> None:
        self.news += 1
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, seconds: float, seen: int) -> None:
        """Until there are more news than `seen`, or for so long."""
        if self.news != seen:
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.append(waiter)
        patience = self._patience.get(seconds)
        if patience is None:
            patience = self._patience[seconds] = SharedTimeout(seconds, _let_go)
        patience.begin(waiter, loop)
        try:
            await waiter
        finally:
            patience.end(waiter)


def _let_go(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Notifier:
    def __init__(self) -> None:
        self._watches: weakref.WeakValueDictionary[RunId, Watch] = weakref.WeakValueDictionary()
        self._patience: dict[float, SharedTimeout[asyncio.Future[None]]] = {}
        self._workers: list[Callable[[RunId | None], None]] = []
        self._far: Callable[[], None] = lambda: None
        self._telling = False
        self.followed: dict[RunId, int] = {}  # runs of which somebody wants to hear every event
        self._broken: BaseException | None = None  # what ended this process' worker

    def watch(self, run_id: RunId) -> Watch:
        found = self._watches.get(run_id)
        if found is None:
            found = self._watches[run_id] = Watch(self._patience)
        return found

    def on_work(self, callback: Callable[[RunId | None], None]) -> Callable[[], None]:
        """Call back when a ticket of this run (None: some run) may be due or have a message."""
        self._workers.append(callback)
        return lambda: self._workers.remove(callback)

    def on_far(self, hint: Callable[[], None]) -> None:
        """How to tell the other processes."""
        self._far = hint

    def work(self, run_id: RunId | None = None) -> None:
        """There may be something to do, here or elsewhere."""
        for callback in self._workers:
            callback(run_id)
        self._tell()

    def _tell(self) -> None:
        self._telling = True
        try:
            self._far()
        finally:
            self._telling = False

    def moved(self, run_id: RunId) -> None:
        """The run's log grew."""
        watch = self._watches.get(run_id) if run_id in self.followed else None
        if watch is not None:
            watch.stir()

    @contextmanager
    def following(self, run_id: RunId) -> Iterator[None]:
        """Within it every move of the run is told, not only its end."""
        self.followed[run_id] = self.followed.get(run_id, 0) + 1
        try:
            yield
        finally:
            self.followed[run_id] -= 1
            if not self.followed[run_id]:
                del self.followed[run_id]

    def ended(self, run_id: RunId, ended: Ended) -> None:
        watch = self._watches.get(run_id)
        if watch is not None:
            watch.ended = ended
            watch.stir()
        self._tell()

    def broke(self, error: BaseException) -> None:
        """This process' worker is gone: whoever waits for it must hear of that."""
        self._broken = error
        for watch in list(self._watches.values()):
            watch.stir()

    def mended(self) -> None:
        """Another worker is there."""
        self._broken = None

    def check(self) -> None:
        """WorkerBroken when nobody in this process drives runs any more."""
        if self._broken is not None:
            raise WorkerBroken(f"the worker of this process stopped: {self._broken!r}") from self._broken

    def heard(self) -> None:
        """Another process hinted: everybody looks again."""
        if self._telling:
            return  # the memory store's hints come back to whoever gave them
        for callback in self._workers:
            callback(None)
        for watch in list(self._watches.values()):
            watch.stir()
