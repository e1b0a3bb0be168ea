"""OwnStarts: runs that this process starts and works on without asking for them first.

A start writes the run's ticket in any case; written with an owner it spares the claim, which is a
third of what a short run costs. Only as many as there is room for, and only when nothing that waits
in the queue is known to be older.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from stepwell.domain.commit import Claim, NewRun, Started
from stepwell.domain.ids import Ids, WorkerId


class OwnStarts:
    def __init__(
        self,
        ids: Ids,
        *,
        queues: Collection[str],
        needs: Collection[str],
        worker: Callable[[], WorkerId],
        room: Callable[[], int],
        begin: Callable[[Claim, float], None],
    ) -> None:
        self._ids = ids
        self._queues = frozenset(queues)
        self._needs = frozenset(needs)
        self._worker = worker
        self._room = room
        self._begin = begin
        # What runs do must not depend on who started them, nor on what that one was doing.
        self._context = contextvars.copy_context()
        self._answered = asyncio.Event()
        self.awaited = 0  # slots of runs that are being started

    def offer(self, runs: Sequence[NewRun]) -> list[NewRun]:
        """The same runs, the first of them wanted by this worker. `answer` must follow."""
        room = self._room()
        if room <= 0:
            return list(runs)
        worker, lease = self._worker(), self._ids.lease_id()
        offered: list[NewRun] = []
        for number, run in enumerate(runs):
            if room > 0 and run.queue in self._queues and run.needs in self._needs:
                room -= 1
                self.awaited += 1
                offered.append(replace(run, owner=worker, lease=f"{lease}{number:03x}"))
            else:
                offered.append(run)
        return offered

    def answer(self, offered: Sequence[NewRun], started: Sequence[Started]) -> None:
        """How the store took it; nothing when it did not say. What it gave us all the same is a stray."""
        loop = asyncio.get_running_loop()
        for run in offered:
            if run.owner:
                loop.call_soon(self._settle, context=self._context)
        for answer in started:
            if answer.claim is not None:
                loop.call_soon(self._take, answer.claim, context=self._context)

    def _settle(self) -> None:
        self.awaited -= 1
        if not self.awaited:
            self._answered.set()

    def _take(self, claim: Claim) -> None:
        self._begin(claim, claim.log[0].at)

    async def settled(self) -> None:
        """Until every start that was offered has been answered."""
        while self.awaited:
            self._answered.clear()
            await self._answered.wait()
