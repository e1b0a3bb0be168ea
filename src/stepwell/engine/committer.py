"""Committer: group commit. While one batch is being written the next one collects.

No timer and no added latency: the first commit that finds the store idle goes alone. An outage is
waited out here: the same batch is sent again, and the store recognises what it had written.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from stepwell.domain.commit import Commit, Committed, Finish, Park
from stepwell.errors import StoreError
from stepwell.store.base import BATCH_BYTES_MAX, BATCH_MEMBERS_MAX, Store

_log = logging.getLogger("stepwell.engine")

Written = Callable[[Committed, Park | Finish | None], None]
_PAUSE_MAX = 2.0
_SHARED_FROM = 16  # commits; fewer are not worth splitting


class Waiting:
    """Commits that wait for the next batch.

    Where several lanes write, one takes its share only: runs that wait for the same batch would else
    march in step, and Python and the database would take turns instead of working at once.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self.members: deque[tuple[Commit, Written]] = deque()
        self._wake = asyncio.Event()

    def put(self, commit: Commit, written: Written) -> None:
        self.members.append((commit, written))
        self._wake.set()

    async def take(self) -> list[tuple[Commit, Written]]:
        """All that wait, up to a batch; empty when another lane was faster."""
        while not self.members:
            self._wake.clear()
            await self._wake.wait()
        # One pass of the loop, so that all who are ready in it share the batch.
        await asyncio.sleep(0)
        batch: list[tuple[Commit, Written]] = []
        size = 0
        waiting = len(self.members)
        share = waiting if waiting < _SHARED_FROM else -(-waiting // self._lanes)
        while self.members and len(batch) < min(share, BATCH_MEMBERS_MAX):
            size += self.members[0][0].size
            if batch and size > BATCH_BYTES_MAX:
                break
            batch.append(self.members.popleft())
        if self.members:
            self._wake.set()
        return batch


class Committer:
    """Commits that touch other runs go apart, so that the many that do not never wait for their locks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._near = Waiting(store.commits_at_once)
        self._far = Waiting(1)
        self._in_flight = 0

    def submit(self, commit: Commit, written: Written) -> None:
        """Write this soon; `written` hears how it went."""
        (self._far if commit.reaches_out else self._near).put(commit, written)

    @property
    def idle(self) -> bool:
        return not (self._near.members or self._far.members or self._in_flight)

    async def run(self) -> None:
        """Write batches until cancelled, as many at once as the store takes."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._store.commits_at_once):
                group.create_task(self._lane(self._near))
            group.create_task(self._lane(self._far))

    async def _lane(self, waiting: Waiting) -> None:
        while True:
            batch = await waiting.take()
            if batch:
                self._in_flight += 1
                try:
                    await self._write(batch)
                finally:
                    self._in_flight -= 1
            del batch  # else the runs of the last one stay in memory until the next

    async def _write(self, batch: list[tuple[Commit, Written]]) -> None:
        commits = [commit for commit, _ in batch]
        pause = 0.02
        while True:
            try:
                results = await self._store.commit(commits)
                break
            except StoreError as error:
                _log.warning(
                    "commit of %d runs not answered (%s); sending again", len(commits), error.message
                )
                await asyncio.sleep(pause)
                pause = min(pause * 2, _PAUSE_MAX)
        for (commit, written), result in zip(batch, results, strict=True):
            try:
                written(result, commit.then)
            except Exception:
                _log.exception("run %s: the engine failed after a commit", commit.run_id)
