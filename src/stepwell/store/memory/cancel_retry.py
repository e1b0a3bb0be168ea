"""Cancel and retry in the memory store."""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.domain.commit import (
    ENDING_PRIORITY,
    CancelOutcome,
    Finish,
    NewEvent,
    RetryOutcome,
)
from stepwell.domain.events import BASES, KIND, Cancelled, CompensationCompleted, Retried, written
from stepwell.domain.ids import RunId, needs_workflow
from stepwell.domain.messages import EndNotice, cancel_request, child_ended, forced_end
from stepwell.domain.status import RETRYABLE, Status
from stepwell.store.base import Encode
from stepwell.store.memory.tables import Run, Tables, Ticket
from stepwell.store.memory.verb import transaction


class MemoryCancelRetry(Tables):
    @transaction("cancel")
    async def cancel(
        self, run_id: RunId, reason: str, *, by: str = "", encode: Encode = bytes
    ) -> CancelOutcome:
        run = self._runs.get(run_id)
        if run is None:
            return CancelOutcome.UNKNOWN
        ticket = self._tickets.get((run_id, ""))
        if ticket is None or ticket.ending:
            return CancelOutcome.ALREADY
        if ticket.started:
            self._deliver(cancel_request(run_id, reason, encode, by=by))
            ticket.ending, ticket.held = True, None
            ticket.priority = ENDING_PRIORITY
            return CancelOutcome.REQUESTED
        self._end(run, ticket, Cancelled(reason=reason, by=by), encode)
        return CancelOutcome.ENDED

    @transaction("force_end")
    async def force_end(
        self, run_id: RunId, reason: str, *, by: str = "", encode: Encode = bytes
    ) -> CancelOutcome:
        run, ticket = self._runs.get(run_id), self._tickets.get((run_id, ""))
        if run is None or ticket is None:
            return CancelOutcome.UNKNOWN if run is None else CancelOutcome.ALREADY
        self._end(run, ticket, Cancelled(reason=reason, by=by, forced=True), encode)
        for child in sorted(r.row.id for r in self._runs.values() if r.row.parent == run_id):
            self._deliver(cancel_request(child, forced_end(run_id), encode))
        return CancelOutcome.ENDED

    def _end(self, run: Run, ticket: Ticket, fact: Cancelled, encode: Encode) -> None:
        run_id = run.row.id
        event = written(replace(fact, unconsumed=list(self._inbox.get(run_id, {}))))
        at = self._append(ticket, [replace(event, payload=encode(event.payload))])
        self._finish(run_id, Finish(seen=ticket.wakes, status=Status.CANCELLED), at)
        if run.row.parent:
            ending = EndNotice(status=Status.CANCELLED, run=run_id)
            self._deliver(child_ended(RunId(run.row.parent), run.parent_path, ticket.head, ending))

    @transaction("retry")
    async def retry(
        self,
        run_id: RunId,
        *,
        needs: str = "",
        undo: bool = False,
        skipped: NewEvent | None = None,
        head: int | None = None,
        by: str = "",
        reason: str = "",
        encode: Encode = bytes,
    ) -> RetryOutcome:
        run = self._runs.get(run_id)
        if run is None:
            return RetryOutcome.UNKNOWN
        if run.row.status not in RETRYABLE or head not in (None, run.log[-1].seq):
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
        retried = written(Retried(path=skipped.path if skipped else "", undo=undo, by=by, reason=reason))
        events = [retried] if skipped is None else [retried, skipped]
        self._append(ticket, [replace(event, payload=encode(event.payload)) for event in events])
        run.row = replace(row, status=Status.RUNNING, output=None, error=None, ended_at=None)
        run.words = ()
        return RetryOutcome.RETRIED
