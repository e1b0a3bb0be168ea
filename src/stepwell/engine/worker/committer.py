"""Committer: group commit. While one batch is being written the next one collects.

No timer and no added latency: the first commit that finds the store idle goes alone. An outage is
waited out here: the same batch is sent again, and the store recognises what it had written.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from stepwell.domain.commit import Commit, Committed, Finish, Park
from stepwell.errors import StoreError
from stepwell.store.base import BATCH_BYTES_MAX, BATCH_MEMBERS_MAX, Store

_log = logging.getLogger("stepwell.engine")

Written = Callable[[Committed, Park | Finish | None], None]
_PAUSE_MAX = 2.0
_SHARED_FROM = 16  # commits; fewer are not worth splitting


class CommitQueue:
    """Commits that wait for the next batch.

    Where several lanes write, Python and the database work at the same time, but only if the runs do
    not all wait for the same batch, and if the batches stay large: a lane takes its share, and beside
    a batch in flight it waits for at least half as many (PostgreSQL, 50 runs: 25 instead of 10 a batch).
    The database often answers both at once, having flushed its log once for both; then the runs of one
    batch go on and are sent before those of the other go on, or all would wait together ever after.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._wake = asyncio.Event()
        self.asleep = False  # some lane may wait for the event
        self.members: deque[tuple[Commit, Written, int]] = deque()
        self.in_flight: list[int] = []  # sizes
        self.telling = asyncio.Lock()  # one lane at a time hears its answers

    def landed(self, size: int) -> None:
        self.in_flight.remove(size)
        self.stir()

    def stir(self) -> None:
        self.asleep = False
        self._wake.set()

    async def take(self) -> list[tuple[Commit, Written, int]]:
        """The next batch, as soon as it is worth sending."""
        while True:
            while not self._worth_sending():
                self._wake.clear()
                self.asleep = True
                await self._wake.wait()
            # One pass of the loop, so that all who are ready in it share the batch.
            await asyncio.sleep(0)
            if self._worth_sending():  # unless another lane was faster
                return self._batch()

    def _worth_sending(self) -> bool:
        return bool(self.members) and 2 * len(self.members) >= max(self.in_flight, default=0)

    def _batch(self) -> list[tuple[Commit, Written, int]]:
        batch: list[tuple[Commit, Written, int]] = []
        size = 0
        waiting = len(self.members)
        share = waiting if waiting < _SHARED_FROM or self.in_flight else -(-waiting // self._lanes)
        while self.members and len(batch) < min(share, BATCH_MEMBERS_MAX):
            size += self.members[0][2]
            if batch and size > BATCH_BYTES_MAX:
                break
            batch.append(self.members.popleft())
        self.in_flight.append(len(batch))
        if self.members:
            self.stir()
        return batch


class Committer:
    """Commits that touch other runs go apart, so that the many that do not never wait for their locks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._near = CommitQueue(store.commits_at_once)
        self._far = CommitQueue(1)

    def submit(self, commit: Commit, size: int, written: Written) -> None:
        """Write this soon; `written` hears how it went. `size`: about how many bytes it sends."""
        waiting = self._far if commit.reaches_out else self._near
        waiting.members.append((commit, written, size))
        if waiting.asleep:
            waiting.stir()

    @property
    def idle(self) -> bool:
        return not any(w.members or w.in_flight for w in (self._near, self._far))

    async def run(self) -> None:
        """Write batches until cancelled, as many at once as the store takes."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._store.commits_at_once):
                group.create_task(self._lane(self._near))
            group.create_task(self._lane(self._far))

    async def _lane(self, waiting: CommitQueue) -> None:
        while True:
            batch = await waiting.take()
            try:
                results = await self._results([commit for commit, _, _ in batch])
                async with waiting.telling:
                    self._tell(batch, results)
                    await asyncio.sleep(0)  # they go on in this pass of the loop, and are sent in the next
            finally:
                waiting.landed(len(batch))
            del batch, results  # else the runs of the last one stay in memory until the next

    async def _results(self, commits: list[Commit]) -> Sequence[Committed]:
        pause = 0.02
        while True:
            try:
                return await self._store.commit(commits)
            except StoreError as error:
                _log.warning(
                    "commit of %d runs not answered (%s); sending again", len(commits), error.message
                )
                await asyncio.sleep(pause)
                pause = min(pause * 2, _PAUSE_MAX)

    def _tell(self, batch: list[tuple[Commit, Written, int]], results: Sequence[Committed]) -> None:
        for (commit, written, _), result in zip(batch, results, strict=True):
            try:
                written(result, commit.then)
            except Exception:
                _log.exception("run %s: the engine failed after a commit", commit.run_id)
