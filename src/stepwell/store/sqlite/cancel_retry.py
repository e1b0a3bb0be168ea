"""Cancel and retry: changes to a run as a whole."""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.domain.commit import ENDING_PRIORITY, CancelOutcome, NewEvent, RetryOutcome
from stepwell.domain.events import Cancelled, Retried, written
from stepwell.domain.ids import RunId, needs_workflow
from stepwell.domain.messages import EndNotice, cancel_request, child_ended, forced_end
from stepwell.domain.status import RETRYABLE, Status
from stepwell.store.base import Encode
from stepwell.store.sqlite.messages import deliver
from stepwell.store.sqlite.session import Row, Session


def cancel(
    session: Session, run_id: RunId, reason: str, *, by: str = "", encode: Encode = bytes
) -> CancelOutcome:
    row = session.row("run_to_cancel", run_id)
    if row is None:
        return CancelOutcome.UNKNOWN
    _, _, ticket, started, ending, _, _ = row
    if ticket is None or ending:
        return CancelOutcome.ALREADY
    if started:
        deliver(session, [[cancel_request(run_id, reason, encode, by=by)]])
        session.run("mark_ending", run_id, ENDING_PRIORITY)
        return CancelOutcome.REQUESTED
    # Nobody ever owned it, so there is nothing to clean up: it can be ended right here.
    _end(session, run_id, row, Cancelled(reason=reason, by=by), encode)
    return CancelOutcome.ENDED


def force_end(
    session: Session, run_id: RunId, reason: str, *, by: str = "", encode: Encode = bytes
) -> CancelOutcome:
    row = session.row("run_to_cancel", run_id)
    if row is None or row[2] is None:
        return CancelOutcome.UNKNOWN if row is None else CancelOutcome.ALREADY
    _end(session, run_id, row, Cancelled(reason=reason, by=by, forced=True), encode)
    children = [RunId(child) for (child,) in session.rows("live_children", run_id)]
    deliver(session, [[cancel_request(child, forced_end(run_id), encode) for child in children]])
    return CancelOutcome.ENDED


def _end(session: Session, run_id: RunId, row: Row, fact: Cancelled, encode: Encode) -> None:
    parent, parent_path, _, _, _, head, last_at = row
    unconsumed = [key for (key,) in session.rows("inbox_keys", run_id)]
    at = max(session.now, last_at)
    event = written(replace(fact, unconsumed=unconsumed))
    payload = encode(event.payload)
    session.run("insert_event", run_id, head + 1, event.kind, event.path, event.attempt, at, payload)
    session.run("finish_run", run_id, Status.CANCELLED.value, None, None, "", None, at)
    for name in ("delete_tickets", "delete_waits", "delete_inbox"):
        session.run(name, run_id)
    if parent:
        ending = EndNotice(status=Status.CANCELLED, run=run_id)
        deliver(session, [[child_ended(RunId(parent), parent_path, head + 1, ending)]])


def retry(
    session: Session,
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
    row = session.row("run_to_retry", run_id)
    if row is None:
        return RetryOutcome.UNKNOWN
    status, workflow, version, queue, workspace, lane, priority, last, at, base, compensated = row
    if status not in RETRYABLE or head not in (None, last):
        return RetryOutcome.NOT_FAILED
    if compensated:
        return RetryOutcome.COMPENSATED
    now = session.now
    at = max(now, at)
    retried = written(Retried(path=skipped.path if skipped else "", undo=undo, by=by, reason=reason))
    for event in [retried] if skipped is None else [retried, skipped]:
        last += 1
        payload = encode(event.payload)
        session.run("insert_event", run_id, last, event.kind, event.path, event.attempt, at, payload)
    needs = needs or needs_workflow(workflow, version)
    due_and_log = (now, now, last, base, at)
    session.run("insert_ticket", run_id, queue, needs, workspace, lane, priority, 1, *due_and_log, None, None)
    session.run("retry_run", run_id)
    session.run("delete_words", run_id)
    return RetryOutcome.RETRIED
