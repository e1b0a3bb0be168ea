"""Local starts: runs started here are claimed in the same transaction, which saves the separate claim.

A start writes the run's ticket in any case; written with an owner it needs no claim, which is a third of the
cost of a short run. Only as many runs as there are free slots, and only if nothing in the queue is known to
be older.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.domain.commit import Claim, NewRun, Started
from stepwell.domain.ids import Ids
from stepwell.engine.worker.claimer import Claimer
from stepwell.engine.worker.roster import Roster
from stepwell.errors import OutcomeUnknown, StoreUnavailable
from stepwell.store.base import Store
from stepwell.system import Clock

_SENDERS = 4  # calls under way: one that is not answered must not hold up the others
_BATCH_RUNS = 500  # runs in a call


class LocalStarts:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        roster: Roster,
        claimer: Claimer,
        *,
        queues: Collection[str],
        needs: Collection[str],
        late_seconds: float,
        begin: Callable[[Claim, float], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._roster = roster
        self._claimer = claimer
        self._queues = frozenset(queues)
        self._needs = frozenset(needs)
        self._late_seconds = late_seconds  # an answer after that is too late: see OrphanedTickets
        self._begin = begin
        self._calls: deque[_StartCall] = deque()
        self._idle: list[asyncio.Future[None]] = []  # of senders that have nothing to send
        self._woken = False  # one of them is about to look
        self._answered = asyncio.Event()
        self._closed = False

    async def start(self, runs: Sequence[NewRun]) -> Sequence[Started]:
        """Like the store's start; but if the caller is cancelled, the runs it started are still ours."""
        offered = self._offer(runs)
        wanted = sum([1 for run in offered if run.owner])
        if not wanted:
            return await self._store.start(offered)
        self._roster.starting += wanted
        self._claimer.started(wanted)
        call = _StartCall(offered, wanted, asyncio.get_running_loop().create_future())
        self._calls.append(call)
        if self._idle and not self._woken:
            idle = self._idle.pop()
            if not idle.done():  # otherwise we are about to be closed
                self._woken = True
                idle.set_result(None)
        return await call.answer

    # Sending

    async def serve(self) -> None:
        """Send the waiting calls until cancelled; calls that came meanwhile share a batch."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_SENDERS):
                group.create_task(self._serve())

    async def _serve(self) -> None:
        while True:
            self._woken = False
            while batch := self._batch():
                await self._send(batch)
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle

    def _batch(self) -> list[_StartCall]:
        batch: list[_StartCall] = []
        count = 0
        while self._calls and count < _BATCH_RUNS:
            call = self._calls.popleft()
            if call.answer.done():  # the caller has gone, and nothing was sent
                self._settle([call])
            else:
                batch.append(call)
                count += len(call.offered)
        return batch

    async def _send(self, batch: Sequence[_StartCall]) -> None:
        began = self._clock.monotonic()
        runs = batch[0].offered if len(batch) == 1 else [run for call in batch for run in call.offered]
        try:
            started = await self._store.start(runs)
        except asyncio.CancelledError:
            self._settle(batch, OutcomeUnknown("the worker stopped while it started runs"))
            raise
        except (StoreUnavailable, OutcomeUnknown) as error:
            self._settle(batch, error)
        except Exception as error:  # a value that the store refuses
            if len(batch) > 1:
                await self._send_one_by_one(batch)
            else:
                self._settle(batch, error)
        else:
            self._settle(batch)
            self._begin_owned(runs, started, began)
            _answer(batch, started)

    async def _send_one_by_one(self, batch: Sequence[_StartCall]) -> None:
        unsent = deque(batch)
        try:
            while unsent:
                await self._send([unsent.popleft()])
        finally:  # cancelled: nobody else has them
            self._settle(unsent, _stopped())

    def _settle(self, batch: Iterable[_StartCall], error: Exception | None = None) -> None:
        """Free the slots that were reserved for these calls; with an error, that is their answer."""
        for call in batch:
            self._roster.starting -= call.wanted
            if error is not None and not call.answer.done():
                call.answer.set_exception(error)
        if not self._roster.starting:
            self._answered.set()

    def _offer(self, runs: Sequence[NewRun]) -> Sequence[NewRun]:
        """The same runs, with this worker as the owner of the first ones that it can take."""
        room = 0 if self._closed else self._claimer.room
        if room <= 0:
            return runs
        worker, lease = self._roster.worker, self._ids.lease_id()
        offered: list[NewRun] = []
        for number, run in enumerate(runs):
            if room > 0 and self._is_for_us(run):
                room -= 1
                offered.append(replace(run, owner=worker, lease=f"{lease}{number:03x}"))
            else:
                offered.append(run)
        return offered

    def _is_for_us(self, run: NewRun) -> bool:
        able = run.queue in self._queues and run.needs in self._needs
        # While a limit holds runs back, those with a lane wait in line.
        return able and run.at_once and not (run.lane and self._claimer.blocked)

    def _begin_owned(self, offered: Sequence[NewRun], started: Sequence[Started], began: float) -> None:
        """Begin the runs that the store gave us. Runs of a late or lost answer become orphaned tickets."""
        if self._closed or self._clock.monotonic() - began >= self._late_seconds:
            return
        worker = self._roster.worker
        for run, answer in zip(offered, started, strict=True):
            if answer.claim is not None and run.owner == worker:
                self._begin(answer.claim, answer.claim.log[0].at)

    async def settled(self) -> None:
        """Wait until every start that was offered has been answered."""
        while self._roster.starting:
            self._answered.clear()
            await self._answered.wait()

    def close(self) -> None:
        """The worker stops: from now on its starts are for other workers."""
        self._closed = True
        unsent = list(self._calls)
        self._calls.clear()
        self._settle(unsent, _stopped())


class _StartCall(NamedTuple):
    """A caller's runs on their way to the store."""

    offered: Sequence[NewRun]
    wanted: int  # how many of them we want to own
    answer: asyncio.Future[Sequence[Started]]


def _stopped() -> StoreUnavailable:
    return StoreUnavailable(
        "the worker stopped before it started these runs", hint="start them again: nothing was written"
    )


def _answer(batch: Sequence[_StartCall], started: Sequence[Started]) -> None:
    at = 0
    for call in batch:
        end = at + len(call.offered)
        if not call.answer.done():  # otherwise the caller has gone
            call.answer.set_result(started[at:end])
        at = end
