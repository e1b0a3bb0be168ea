"""Committer: group commit. While one batch is being written, the next one collects.

No timer and no added latency: the first commit that finds the store idle goes alone. An outage is waited out
here: the same batch is sent again, and the store recognises what it has already written.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from stepwell.domain.commit import Commit, Committed, Finish, Outcome, Park
from stepwell.store.base import BATCH_BYTES_MAX, BATCH_MEMBERS_MAX, Store
from stepwell.store.outage import outlast
from stepwell.telemetry.measures import WorkerMeasures

_log = logging.getLogger("stepwell.engine")

OnCommitted = Callable[[Committed, Park | Finish | None], None]
_PAUSE = 0.02
_PAUSE_MAX = 2.0
_SHARED_FROM = 16  # commits; fewer are not worth splitting


class CommitQueue:
    """Commits that wait for the next batch.

    If several lanes write, Python and the database work at the same time, but only if the runs do not all
    wait for the same batch, and if the batches stay large: a lane takes its share, and beside a batch in
    flight it waits for at least half as many commits (PostgreSQL, 50 runs: 25 instead of 10 a batch).
    The database often answers both at once, having flushed its log once for both; then the runs of one batch
    continue and are sent before those of the other continue, or they would all wait together from then on.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._wake = asyncio.Event()
        self.asleep = False  # some lane may wait for the event
        self.members: deque[tuple[Commit, OnCommitted, int]] = deque()
        self.in_flight: list[int] = []  # sizes
        self.reporting = asyncio.Lock()  # one lane at a time reports its results

    def landed(self, size: int) -> None:
        self.in_flight.remove(size)
        self.wake()

    def wake(self) -> None:
        self.asleep = False
        self._wake.set()

    async def take(self) -> list[tuple[Commit, OnCommitted, int]]:
        """The next batch, as soon as it is worth sending."""
        while True:
            while not self._worth_sending():
                self._wake.clear()
                self.asleep = True
                await self._wake.wait()
            # One pass of the loop, so that everything that is ready in it shares the batch.
            await asyncio.sleep(0)
            if self._worth_sending():  # unless another lane was faster
                return self._batch()

    def _worth_sending(self) -> bool:
        return bool(self.members) and 2 * len(self.members) >= max(self.in_flight, default=0)

    def _batch(self) -> list[tuple[Commit, OnCommitted, int]]:
        batch: list[tuple[Commit, OnCommitted, int]] = []
        size, members = 0, self.members
        waiting = len(members)
        share = waiting if waiting < _SHARED_FROM or self.in_flight else -(-waiting // self._lanes)
        for _ in range(min(share, BATCH_MEMBERS_MAX)):
            size += members[0][2]
            if size > BATCH_BYTES_MAX and batch:
                break
            batch.append(members.popleft())
        self.in_flight.append(len(batch))
        if members:
            self.wake()
        return batch


class Committer:
    """Commits that touch other runs have their own queue, so that the others never wait for their locks."""

    def __init__(self, store: Store, measures: WorkerMeasures) -> None:
        self._store = store
        self._measures = measures
        self._local = CommitQueue(store.commits_at_once)
        self._cross_run = CommitQueue(1)

    def submit(self, commit: Commit, size: int, written: OnCommitted) -> None:
        """Write this soon, then call `written` with the result. `size`: about how many bytes it sends."""
        queue = self._local
        # `cross_run` and `counting`, inlined: this runs for every step.
        if not commit.events_only and (
            commit.starts
            or commit.deliveries
            or commit.tickets_opened
            or commit.tickets_closed
            or commit.used
            or commit.marks
            or commit.notifications
        ):
            queue = self._cross_run
        queue.members.append((commit, written, size))
        if queue.asleep:
            queue.wake()

    @property
    def idle(self) -> bool:
        return not any(queue.members or queue.in_flight for queue in (self._local, self._cross_run))

    async def run(self) -> None:
        """Write batches until cancelled, as many at once as the store accepts."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._store.commits_at_once):
                group.create_task(self._write_batches(self._local))
            group.create_task(self._write_batches(self._cross_run))

    async def _write_batches(self, queue: CommitQueue) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = await queue.take()
            sent = loop.time()
            try:
                results = await self._results([commit for commit, _, _ in batch])
                self._measures.batches.add(len(batch))
                self._measures.batch_seconds.add(loop.time() - sent)
                async with queue.reporting:
                    self._report(batch, results)
                    await asyncio.sleep(0)  # they continue in this pass of the loop, and are sent in the next
            finally:
                queue.landed(len(batch))
            del batch, results  # otherwise the runs of the last batch stay in memory until the next

    async def _results(self, commits: list[Commit]) -> Sequence[Committed]:
        return await outlast(
            lambda: self._store.commit(commits),
            "commit of %d runs",
            len(commits),
            pause=_PAUSE,
            longest=_PAUSE_MAX,
        )

    def _report(self, batch: list[tuple[Commit, OnCommitted, int]], results: Sequence[Committed]) -> None:
        ok = Outcome.OK
        for (commit, written, _), result in zip(batch, results, strict=True):
            then = commit.then
            if result.outcome is not ok:
                self._measures.leases_lost += result.outcome is Outcome.LOST
            elif then is not None and type(then) is Finish:
                began = then.started_at or result.at
                self._measures.run_ended(then.status, max(0.0, result.at - began))
            try:
                written(result, then)
            except Exception:
                _log.exception("run %s: the engine failed after a commit", commit.run_id)
