"""StepLogWriter: writes the lines that a worker's steps log and print, in batches."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable

from stepwell.domain.ids import RunId
from stepwell.domain.step_log import NewLogLine
from stepwell.store.base import StepLogStore
from stepwell.store.outage import outlast
from stepwell.store.wakeups import Notifier
from stepwell.system import Clock

_log = logging.getLogger("stepwell.engine")

_COLLECT_SECONDS = 0.1  # seconds; a reader sees a line at most this much later
_BATCH_LINES = 500
_PAUSE_MAX = 2.0


class StepLogWriter:
    """Collects lines from any thread. The end of an attempt is recorded after its lines are written."""

    def __init__(
        self, store: StepLogStore, notifier: Notifier, clock: Clock, *, token: str, bytes_max: int
    ) -> None:
        self._store = store
        self._token = token  # id of this worker, which makes the keys of its lines unique
        self._notifier = notifier
        self._clock = clock
        self.bytes_max = bytes_max
        self._lock = threading.Lock()
        self._lines: deque[NewLogLine] = deque()
        self._queued = 0
        self._written = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._some = asyncio.Event()  # there are lines
        self._now = asyncio.Event()  # somebody is waiting for them

    @property
    def idle(self) -> bool:
        return self._written == self._queued

    def add(self, run_id: str, path: str, attempt: int, payload: bytes) -> int:
        at = self._clock.time()
        with self._lock:
            first = not self._lines
            self._queued += 1
            queued = self._queued
            key = f"{self._token}/{queued}"
            self._lines.append(NewLogLine(RunId(run_id), path, attempt, key, at, payload))
        if first and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._some.set)
        return queued

    def when_written(self, count: int, then: Callable[[], None]) -> None:
        """To be called on the worker's loop."""
        if self._written >= count:
            then()
        else:
            self._waiting.append((count, then))
            self._now.set()

    async def settled(self, seconds: float) -> None:
        """Wait until all lines are written, at most that long."""
        written = asyncio.Event()
        self.when_written(self._queued, written.set)
        try:
            async with asyncio.timeout(seconds):
                await written.wait()
        except TimeoutError:
            _log.warning("the last %d log lines of steps are lost", self._queued - self._written)

    async def run(self) -> None:
        """Write until cancelled."""
        self._loop = asyncio.get_running_loop()
        while True:
            if not self._lines:
                self._some.clear()
                await self._some.wait()
            if not self._waiting:
                await self._collect()
            await self._write()

    async def _collect(self) -> None:
        self._now.clear()
        try:
            async with asyncio.timeout(_COLLECT_SECONDS):
                await self._now.wait()
        except TimeoutError:
            pass

    async def _write(self) -> None:
        with self._lock:
            batch = [self._lines.popleft() for _ in range(min(len(self._lines), _BATCH_LINES))]
        try:
            await outlast(
                lambda: self._store.add_log_lines(batch),
                "%d log lines of steps",
                len(batch),
                longest=_PAUSE_MAX,
            )
        except Exception:  # steps must not wait for lines that the database refuses
            _log.exception("%d log lines of steps were lost", len(batch))
        self._written += len(batch)
        for run_id in {line.run_id for line in batch}:
            self._notifier.notify_run(run_id)
        while self._waiting and self._waiting[0][0] <= self._written:
            self._waiting.popleft()[1]()
