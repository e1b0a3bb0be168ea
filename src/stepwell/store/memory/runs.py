"""Runs of the memory store: start, commit, transact, cancel, retry."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from stepwell.domain.commit import (
    ENDING_PRIORITY,
    CancelOutcome,
    Commit,
    Committed,
    Finish,
    NewRun,
    Outcome,
    Park,
    RetryOutcome,
    Started,
)
from stepwell.domain.events import BASES, KIND, Cancelled, CompensationCompleted, Retried, written
from stepwell.domain.fence import check_fence, due_after, was_already_written
from stepwell.domain.ids import RunId, needs_workflow
from stepwell.domain.messages import EndNotice, cancel_request, child_ended
from stepwell.domain.rates import Ledger, RatedAnswer, RatedStart, admitted
from stepwell.domain.status import RETRYABLE, Status
from stepwell.store.base import Encode
from stepwell.store.memory.tables import Tables, Ticket
from stepwell.store.memory.transaction import entering, leaving, transaction


class MemoryRuns(Tables):
    @transaction("start")
    async def start(self, runs: Sequence[NewRun]) -> Sequence[Started]:
        return [self._start(run) for run in self._owned_within_limits(runs)]

    @transaction("start_within")
    async def start_within(self, asked: RatedStart) -> RatedAnswer:
        ledger = Ledger(self._windows, self._clock())
        known = self._known.keys() & {run.identity for run in asked.runs}
        full = admitted([asked], ledger, known)[0]
        if full is not None:
            return full
        self._windows.update({key: starts for key, starts, _ in ledger.changed()})
        return [self._start(run) for run in self._owned_within_limits(asked.runs)]

    @transaction("commit")
    async def commit(self, batch: Sequence[Commit]) -> Sequence[Committed]:
        return [self._commit(commit) for commit in batch]

    def _commit(self, commit: Commit) -> Committed:
        ticket = self._tickets.get((commit.run_id, ""))
        if ticket is None:
            outcome = Outcome.LOST
        else:
            outcome = check_fence(commit, lease=ticket.lease, head=ticket.head, wakes=ticket.wakes)
        if outcome is not Outcome.OK or ticket is None:
            return self._not_written(commit, outcome, ticket)
        at = self._append(ticket, commit.events)
        if commit.events:
            ticket.lost_lease = ""
        if commit.settled:
            ticket.losses = 0
        if commit.base is not None:
            ticket.base = commit.base
        for key in commit.consumed:
            self._inbox.get(commit.run_id, {}).pop(key, None)
        for wait in commit.waits_opened:
            self._waits[commit.run_id, wait.path] = wait
        for path in commit.waits_closed:
            self._waits.pop((commit.run_id, path), None)
        self._reach_out(commit)
        if isinstance(commit.then, Park):
            self._park(ticket, commit.then)
        elif isinstance(commit.then, Finish):
            self._finish(commit.run_id, commit.then, at)
        return Committed(Outcome.OK, ticket.wakes, at)

    def _not_written(self, commit: Commit, outcome: Outcome, ticket: Ticket | None) -> Committed:
        run = self._runs.get(commit.run_id)
        wakes = ticket.wakes if ticket else 0
        if outcome is Outcome.LOST and run is not None and was_already_written(commit, run.log):
            return Committed(Outcome.OK, wakes, run.log[commit.head + len(commit.events) - 1].at)
        return Committed(outcome, wakes, self._clock())

    def _reach_out(self, commit: Commit) -> None:
        now = self._clock()
        for path in commit.tickets_closed:
            self._tickets.pop((commit.run_id, path), None)
        for new in commit.tickets_opened:
            self._tickets[commit.run_id, new.path] = Ticket(
                commit.run_id, new.path, new.queue, new.needs, new.priority, now, now, head=new.seq, at=now
            )
        for run in commit.starts:
            self._start(run)
        for message in commit.deliveries:
            self._deliver(message)

    def _park(self, ticket: Ticket, park: Park) -> None:
        ticket.owner = ticket.lease = None
        # By the wall clock: after a jump forward and back, the events' time stands still for a while.
        ticket.due_at = due_after(park, self._clock())
        run = self._runs[ticket.run_id]
        run.row = replace(
            run.row,
            status=park.status,
            where_at=park.where_at,
            started_at=run.row.started_at or park.started_at or None,
        )

    async def transact(
        self, body: Callable[[Any], Any], turn: Callable[[Any], Awaitable[Commit] | Commit]
    ) -> Committed:
        entering("transact", "before")
        result = body(None)
        if inspect.isawaitable(result):
            result = await result
        commit = turn(result)
        if inspect.isawaitable(commit):
            commit = await commit
        entering("transact", "mid")
        committed = self._commit(commit)
        leaving("transact")
        return committed

    @transaction("cancel")
    async def cancel(self, run_id: RunId, reason: str, *, encode: Encode = bytes) -> CancelOutcome:
        run = self._runs.get(run_id)
        if run is None:
            return CancelOutcome.UNKNOWN
        ticket = self._tickets.get((run_id, ""))
        if ticket is None or ticket.ending:
            return CancelOutcome.ALREADY
        if ticket.started:
            self._deliver(cancel_request(run_id, reason, encode))
            ticket.ending = True
            ticket.priority = ENDING_PRIORITY
            return CancelOutcome.REQUESTED
        unconsumed = list(self._inbox.get(run_id, {}))
        event = written(Cancelled(reason=reason, unconsumed=unconsumed))
        at = self._append(ticket, [replace(event, payload=encode(event.payload))])
        self._finish(run_id, Finish(seen=ticket.wakes, status=Status.CANCELLED), at)
        if run.row.parent:
            ending = EndNotice(status=Status.CANCELLED, run=run_id)
            self._deliver(child_ended(RunId(run.row.parent), run.parent_path, ticket.head, ending))
        return CancelOutcome.ENDED

    @transaction("retry")
    async def retry(self, run_id: RunId, *, needs: str = "", undo: bool = False) -> RetryOutcome:
        run = self._runs.get(run_id)
        if run is None:
            return RetryOutcome.UNKNOWN
        if run.row.status not in RETRYABLE:
            return RetryOutcome.NOT_FAILED
        if any(row.kind == KIND[CompensationCompleted] for row in run.log):
            return RetryOutcome.COMPENSATED
        now = self._clock()
        row = run.row
        ticket = Ticket(
            run_id,
            "",
            run.queue,
            needs or needs_workflow(row.workflow, row.version),
            run.priority,
            now,
            now,
            head=run.log[-1].seq,
            at=run.log[-1].at,
            base=max((e.seq for e in run.log if e.kind in BASES), default=1),
            started=True,
            lane=run.lane,
        )
        self._tickets[run_id, ""] = ticket
        self._append(ticket, [written(Retried(undo=undo))])
        run.row = replace(row, status=Status.RUNNING, output=None, error=None, ended_at=None)
        return RetryOutcome.RETRIED
