"""Notifier: wakes the tasks of this process that wait for a change, here or in another process.

A notification is a hint and may be missed: every waiter also looks by itself now and then. Where hints from
other processes do not arrive, followers of a run look often.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from stepwell.domain.ids import RunId
from stepwell.domain.status import Status
from stepwell.errors import WorkerBroken
from stepwell.shared_timeout import SharedTimeout
from stepwell.store.base import Wakeups
from stepwell.store.followers import (
    ASK,
    LIST,
    RENEW_SECONDS,
    WORK,
    Followers,
    follow,
    grew,
    read_follow,
    read_grew,
)

_LOOK_SECONDS = 5.0  # a hint may be lost
_POLL_SECONDS = 0.25  # if hints do not arrive
_WORK_SECONDS = 0.25  # hints about work may be frequent; they wake followers at most this often


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
        self._wakeups: Wakeups | None = None  # carries hints to and from other processes
        self._stop_listening: Callable[[], None] | None = None
        self._hinting = False
        self._followers = Followers()
        self.followed = self._followers.here  # runs whose every event is notified here
        self.wanted = self._followers.anywhere  # followed here or elsewhere
        self._announced_at = float("-inf")
        self._followers_woken_at = float("-inf")
        self._waking_followers: asyncio.TimerHandle | None = None
        self.owns: Callable[[RunId], bool] = lambda run_id: False  # whether this process' worker owns a run
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

    def connect(self, wakeups: Wakeups, *, listens: bool = True) -> None:
        """Exchange hints with other processes. Without `listens`, listen only while a run is followed."""
        self._wakeups = wakeups
        if listens:
            self._listen()

    def _listen(self) -> None:
        if self._wakeups is not None and self._stop_listening is None:
            self._stop_listening = self._wakeups.listen(self.on_remote)

    def disconnect(self) -> None:
        """Stop listening. Hints are still sent."""
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        if self._waking_followers is not None:
            self._waking_followers.cancel()
            self._waking_followers = None

    def notify_work(self, run_id: RunId | None = None) -> None:
        """Say that there may be something to do, here or elsewhere."""
        for callback in self._workers:
            callback(run_id)
        self._hint()

    def _hint(self, text: str = WORK) -> None:
        if self._wakeups is None:
            return
        self._hinting = True
        try:
            self._wakeups.hint(text)
        finally:
            self._hinting = False

    # The log of a run

    def notify_run(self, run_id: RunId) -> None:
        """Say that the run's log grew."""
        if run_id not in self.wanted:
            return
        watch = self._watches.get(run_id) if run_id in self.followed else None
        if watch is not None:
            watch.notify()
        if self._wakeups is not None and self._followers.elsewhere(run_id, _now()):
            self._hint(grew(run_id))

    def notify_status(self) -> None:
        """Notify lists of runs that the status of some run changed."""
        if LIST in self.wanted:
            self.notify_run(LIST)

    @contextmanager
    def following(self, run_id: RunId) -> Iterator[None]:
        """Within the block, every event of the run is notified, not only its end, wherever it is written."""
        self._listen()
        if self._followers.begin(run_id) and self._stop_listening is not None:
            self._announce([run_id])
        try:
            yield
        finally:
            self._followers.end(run_id)

    def _announce(self, run_ids: Iterable[RunId]) -> None:
        for text in follow(run_ids):
            self._hint(text)

    def look_in(self) -> float:
        """Return after how many seconds a waiting follower looks by itself."""
        if self._stop_listening is None or self._wakeups is None or not self._wakeups.hears():
            return _POLL_SECONDS
        now = _now()
        if now >= self._announced_at + RENEW_SECONDS:
            self._announced_at = now
            self._announce(self.followed)
        return _LOOK_SECONDS

    def notify_end(self, run_id: RunId, ended: Ended) -> None:
        watch = self._watches.get(run_id)
        if watch is not None:
            watch.ended = ended
            watch.notify()
        self.notify_run(run_id)
        self._hint()

    # The worker of this process

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

    # Hints of other processes

    def on_remote(self, text: str = WORK) -> None:
        """Wake the waiters that the hint of another process concerns."""
        if self._hinting:
            return  # the memory store's hints come back to their sender
        if text == WORK:
            self._wake_all()
        elif text == ASK:
            self._soon(lambda: self._announce(self.followed))
        elif (run_id := read_grew(text)) is not None:
            watch = self._watches.get(run_id)
            if watch is not None:
                watch.notify()
        else:
            self._heard_of_followers(read_follow(text))

    def _heard_of_followers(self, run_ids: Iterable[RunId]) -> None:
        """Hint at every commit from now on. The answer covers commits since the follower last looked."""
        fresh = self._followers.heard(run_ids, _now())
        for run_id in fresh:
            if run_id == LIST or self.owns(run_id):
                self._soon(lambda run_id=run_id: self._hint(grew(run_id)))  # type: ignore[misc]

    def _soon(self, answer: Callable[[], None]) -> None:
        """Answer after the other's hint has returned: the memory store calls us within it."""
        asyncio.get_running_loop().call_soon(answer)

    def _wake_all(self) -> None:
        for callback in self._workers:
            callback(None)
        for run_id, watch in list(self._watches.items()):
            if run_id not in self.followed:
                watch.notify()
        if self.followed and self._waking_followers is None:
            wait = self._followers_woken_at + _WORK_SECONDS - _now()
            if wait <= 0:
                self._wake_followers()
            else:
                self._waking_followers = asyncio.get_running_loop().call_later(wait, self._wake_followers)

    def _wake_followers(self) -> None:
        """Wake followers for a change without its own hint, such as a cancel by a process that only sends."""
        self._waking_followers = None
        self._followers_woken_at = _now()
        for run_id in list(self.followed):
            if watch := self._watches.get(run_id):
                watch.notify()


def _now() -> float:
    return asyncio.get_running_loop().time()
