"""OwnStarts: runs that this process starts and works on without asking for them first.

A start writes the run's ticket in any case; written with an owner it spares the claim, which is a
third of what a short run costs. Only as many as there is room for, and only when nothing that waits
in the queue is known to be older.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec.structs import replace

from stepwell.domain.commit import Claim, NewRun, Started
from stepwell.domain.ids import Ids, WorkerId
from stepwell.store.base import Store
from stepwell.system import Clock


class OwnStarts:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        *,
        queues: Collection[str],
        needs: Collection[str],
        patience: float,
        worker: Callable[[], WorkerId],
        room: Callable[[], int],
        begin: Callable[[Claim, float], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._queues = frozenset(queues)
        self._needs = frozenset(needs)
        self._patience = patience  # seconds; later an answer is too late: see Strays
        self._worker = worker
        self._room = room
        self._begin = begin
        # What runs do must not depend on who started them, nor on what that one was doing.
        self._context = contextvars.copy_context()
        self._under_way: dict[asyncio.Future[Any], tuple[asyncio.Task[None], Sequence[NewRun]]] = {}
        self._answered = asyncio.Event()
        self._closed = False
        self.awaited = 0  # slots of runs that are being started

    async def start(self, runs: Sequence[NewRun]) -> Sequence[Started]:
        """As the store does, in a task of its own: when the caller goes, what it started is still ours."""
        offered = self._offer(runs)
        if not any([run.owner for run in offered]):
            return await self._store.start(offered)
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Sequence[Started]] = loop.create_future()
        task = asyncio.Task(self._start(offered, answered), loop=loop, context=self._context)
        self._under_way[answered] = (task, offered)
        task.add_done_callback(lambda _: self._left(answered))
        return await answered

    async def _start(self, offered: Sequence[NewRun], answered: asyncio.Future[Sequence[Started]]) -> None:
        began = self._clock.monotonic()
        try:
            try:
                started = await self._store.start(offered)
            finally:
                self._settle(answered)
            self._take(offered, started, began)
        except Exception as error:
            if not answered.done():
                answered.set_exception(error)
        else:
            if not answered.done():
                answered.set_result(started)

    def _left(self, answered: asyncio.Future[Sequence[Started]]) -> None:
        """The task has ended, perhaps cancelled before it had begun."""
        self._settle(answered)
        if not answered.done():
            answered.cancel()

    def _offer(self, runs: Sequence[NewRun]) -> Sequence[NewRun]:
        """The same runs, the first of them wanted by this worker."""
        room = 0 if self._closed else self._room()
        if room <= 0:
            return runs
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

    def _settle(self, answered: asyncio.Future[Sequence[Started]]) -> None:
        """Its slots are awaited no more."""
        if answered not in self._under_way:
            return
        _, offered = self._under_way.pop(answered)
        self.awaited -= sum([1 for run in offered if run.owner])
        if not self.awaited:
            self._answered.set()

    def _take(self, offered: Sequence[NewRun], started: Sequence[Started], began: float) -> None:
        """What the store gave us. What it gave without saying so, or too late, is a stray."""
        if self._closed or self._clock.monotonic() - began >= self._patience:
            return
        for run, answer in zip(offered, started, strict=True):
            if answer.claim is not None and run.owner == self._worker():
                self._begin(answer.claim, answer.claim.log[0].at)

    async def settled(self) -> None:
        """Until every start that was offered has been answered."""
        while self.awaited:
            self._answered.clear()
            await self._answered.wait()

    def close(self) -> None:
        """This worker is over: whatever it is given from now on is for others."""
        self._closed = True
