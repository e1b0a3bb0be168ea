"""OwnStarts: runs that this process starts and works on without asking for them first.

A start writes the run's ticket in any case; written with an owner it spares the claim, which is a
third of what a short run costs. Only as many as there is room for, and only when nothing that waits
in the queue is known to be older.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.domain.commit import Claim, NewRun, Started
from stepwell.domain.ids import Ids, WorkerId
from stepwell.errors import OutcomeUnknown, StoreUnavailable
from stepwell.store.base import Store
from stepwell.system import Clock

_AT_ONCE = 4  # calls under way: one that is not answered must not hold up the others
_TOGETHER = 500  # runs in a call


class LocalStarts:
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
        offered: Callable[[int], None],
        blocked: Callable[[], bool],
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
        self._offered = offered
        self._blocked = blocked  # by limits: then their runs wait in line
        self._begin = begin
        self._waiting: deque[_Asked] = deque()
        self._idle: list[asyncio.Future[None]] = []  # of servers that have nothing to send
        self._called = False  # one of them is about to look
        self._answered = asyncio.Event()
        self._closed = False
        self.awaited = 0  # slots of runs that are being started

    async def start(self, runs: Sequence[NewRun]) -> Sequence[Started]:
        """As the store does; but when the caller goes, what it started is still ours."""
        offered = self._offer(runs)
        wanted = sum([1 for run in offered if run.owner])
        if not wanted:
            return await self._store.start(offered)
        self.awaited += wanted
        self._offered(wanted)
        asked = _Asked(offered, wanted, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if self._idle and not self._called:
            idle = self._idle.pop()
            if not idle.done():  # else we are about to be closed
                self._called = True
                idle.set_result(None)
        return await asked.answered

    # Sending

    async def serve(self) -> None:
        """Send what waits, until cancelled; all who came meanwhile share a call, as in a group commit."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(self._serve())

    async def _serve(self) -> None:
        while True:
            self._called = False
            while batch := self._batch():
                await self._send(batch)
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle

    def _batch(self) -> list[_Asked]:
        batch: list[_Asked] = []
        count = 0
        while self._waiting and count < _TOGETHER:
            asked = self._waiting.popleft()
            if asked.answered.done():  # the caller has gone, and nothing was sent
                self._settle([asked])
            else:
                batch.append(asked)
                count += len(asked.offered)
        return batch

    async def _send(self, batch: Sequence[_Asked]) -> None:
        began = self._clock.monotonic()
        runs = batch[0].offered if len(batch) == 1 else [run for asked in batch for run in asked.offered]
        try:
            started = await self._store.start(runs)
        except asyncio.CancelledError:
            self._settle(batch, OutcomeUnknown("the worker stopped while it started runs"))
            raise
        except (StoreUnavailable, OutcomeUnknown) as error:
            self._settle(batch, error)
        except Exception as error:  # a value that the store does not take
            if len(batch) > 1:
                await self._send_apart(batch)
            else:
                self._settle(batch, error)
        else:
            self._settle(batch)
            self._take(runs, started, began)
            _tell(batch, started)

    async def _send_apart(self, batch: Sequence[_Asked]) -> None:
        unsent = deque(batch)
        try:
            while unsent:
                await self._send([unsent.popleft()])
        finally:  # cancelled: nobody else has them
            self._settle(unsent, _stopped())

    def _settle(self, batch: Iterable[_Asked], error: Exception | None = None) -> None:
        """Their slots are awaited no more."""
        for asked in batch:
            self.awaited -= asked.wanted
            if error is not None and not asked.answered.done():
                asked.answered.set_exception(error)
        if not self.awaited:
            self._answered.set()

    def _offer(self, runs: Sequence[NewRun]) -> Sequence[NewRun]:
        """The same runs, the first of them wanted by this worker."""
        room = 0 if self._closed else self._room()
        if room <= 0:
            return runs
        worker, lease = self._worker(), self._ids.lease_id()
        offered: list[NewRun] = []
        for number, run in enumerate(runs):
            if room > 0 and self._is_for_us(run):
                room -= 1
                offered.append(replace(run, owner=worker, lease=f"{lease}{number:03x}"))
            else:
                offered.append(run)
        return offered

    def _is_for_us(self, run: NewRun) -> bool:
        known = run.queue in self._queues and run.needs in self._needs
        return known and run.at_once and not (run.lane and self._blocked())

    def _take(self, offered: Sequence[NewRun], started: Sequence[Started], began: float) -> None:
        """What the store gave us. What it gave without saying so, or too late, is a stray."""
        if self._closed or self._clock.monotonic() - began >= self._patience:
            return
        worker = self._worker()
        for run, answer in zip(offered, started, strict=True):
            if answer.claim is not None and run.owner == worker:
                self._begin(answer.claim, answer.claim.log[0].at)

    async def settled(self) -> None:
        """Until every start that was offered has been answered."""
        while self.awaited:
            self._answered.clear()
            await self._answered.wait()

    def close(self) -> None:
        """This worker is over: whatever it is given from now on is for others."""
        self._closed = True
        unsent = list(self._waiting)
        self._waiting.clear()
        self._settle(unsent, _stopped())


class _Asked(NamedTuple):
    """Somebody's runs on their way."""

    offered: Sequence[NewRun]
    wanted: int  # how many of them we want ourselves
    answered: asyncio.Future[Sequence[Started]]


def _stopped() -> StoreUnavailable:
    return StoreUnavailable(
        "the worker stopped before it started these runs", hint="start them again: nothing was written"
    )


def _tell(batch: Sequence[_Asked], started: Sequence[Started]) -> None:
    at = 0
    for asked in batch:
        end = at + len(asked.offered)
        if not asked.answered.done():  # else the caller has gone
            asked.answered.set_result(started[at:end])
        at = end
