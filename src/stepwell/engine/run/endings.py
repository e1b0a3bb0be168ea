"""Endings: how a run's code ended, and what that writes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.codec import limited
from stepwell.domain.commit import Finish, InboxRow, Message, NewEvent
from stepwell.domain.control_flow import Continue, TransitionStopped, Unwind
from stepwell.domain.events import Problem
from stepwell.domain.ids import RunId, recorded_random
from stepwell.domain.messages import HELD, EndNotice, cancel_request, child_ended
from stepwell.domain.problems import problem_of
from stepwell.domain.program import Program
from stepwell.domain.search import error_words
from stepwell.domain.status import RETRYABLE, Status
from stepwell.engine.execution.exit_guard import sys_exit_as_error
from stepwell.engine.run.answers import RecordedResult
from stepwell.engine.run.journal import Journal
from stepwell.engine.run.log_writer import Draft
from stepwell.engine.run.port import Call, RunParts
from stepwell.engine.run.replay import code_changed, left_open
from stepwell.engine.run.style import StyleRules
from stepwell.engine.run.waits import Waits
from stepwell.errors import HistoryLimit, NotDurable, RunTimedOut, StepwellError
from stepwell.store.wakeups import Ended
from stepwell.telemetry.spans import EndedRun, TracedRun

_KEYS_KEPT = 10_000  # the youngest: a repeat comes soon after the first, if at all


@dataclass(slots=True)
class RunEnding:
    """How it ends; `event` is the fact once it is drafted."""

    status: Status
    result: bytes | None = None
    problem: Problem | None = None
    reason: str = ""
    continues: ev.Continued | None = None
    event: NewEvent | None = None
    messages: list[Message] = field(default_factory=list)

    def undraft(self, draft: Draft) -> None:
        """Its commit was refused: it is drafted anew, with what came meanwhile."""
        if self.event is not None:
            draft.events.remove(self.event)
            self.event = None
        for message in self.messages:
            draft.rest.deliveries.remove(message)
        self.messages = []


def unfinished_replay(
    run: RunParts, style: StyleRules, main: asyncio.Task[bytes], program: Program
) -> RunEnding | None:
    """The code returned during the replay although the log has more: it is not the code that was recorded.

    An error of the code is reported as it is.
    """
    if main.cancelled() or not (main.exception() is None or isinstance(main.exception(), Continue)):
        return None
    for answer in run.calls.answers:
        if _must_be_asked(answer):
            return failed(code_changed(answer, run.calls.pending, program))
    gone = left_open(run.journal, run.calls) if style.replays_code else None
    return None if gone is None else failed(gone)


def of_main(run: RunParts, waits: Waits, main: asyncio.Task[bytes]) -> RunEnding:
    """What the workflow's own code returned or raised."""
    if main.cancelled():
        error: BaseException | None = asyncio.CancelledError("the workflow cancelled itself")
    else:
        error = _bare(main.exception())
    if isinstance(error, Continue):
        return _continued(run.journal, waits, error)
    if run.cancelling:
        unwound = isinstance(error, Unwind | asyncio.CancelledError)
        failure = None if error is None or unwound else problem_of(error)
        return RunEnding(Status.CANCELLED, reason=run.journal.cancel_reason, problem=failure)
    if error is None:
        return _completed(main.result(), run.services.payload_bytes_max)
    return failed(error)


def _bare(error: BaseException | None) -> BaseException | None:
    """A TaskGroup wraps what its tasks raise; the engine's own unwinding counts as itself."""
    while isinstance(error, BaseExceptionGroup):
        inside = error.exceptions
        unwinding = [e for e in inside if isinstance(_bare(e), Unwind)]
        if unwinding:
            error = unwinding[0]
        elif len(inside) == 1:
            error = inside[0]
        else:
            break
    return None if error is None else sys_exit_as_error(error)


def _completed(result: bytes, bytes_max: int) -> RunEnding:
    try:
        return RunEnding(Status.COMPLETED, result=limited(result, "the run's result", bytes_max))
    except StepwellError as error:
        return failed(error)


def _continued(journal: Journal, waits: Waits, error: Continue) -> RunEnding:
    generation = journal.generation + 1
    waits.leave()
    fact = ev.Continued(
        generation=generation,
        input=Raw(error.input),
        seed=f"{recorded_random(journal.seed_now, f'continue/{generation}'):032x}",
        carried=[ev.Carried(name=m.name, payload=m.payload) for m in waits.unmatched()],
        keys=list(waits.keys)[-_KEYS_KEPT:],
        documents=list(journal.documents.values()),
        children=waits.children_left(),
        cursors=waits.cursors(),
    )
    return RunEnding(Status.RUNNING, continues=fact)


def failed(error: BaseException) -> RunEnding:
    if isinstance(error, TransitionStopped):
        assert isinstance(error.problem, Problem)
        return RunEnding(Status.FAILED, problem=error.problem)
    return RunEnding(Status.FAILED, problem=problem_of(error))


def timed_out(pending: Iterable[Call], limit: float) -> RunEnding:
    """It names what was under way: a retry begins that anew, so it must fit into the timeout by itself."""
    under_way = [call.text for call in pending if call.under_way]
    doing = f"; under way: {', '.join(under_way[:3])}" if under_way else ""
    error = RunTimedOut(
        f"the run was active for more than its timeout of {limit:g} s{doing}",
        hint="a retry gives this run the same time again (waiting does not count) and begins what was under "
        "way anew; if that alone takes longer, start a new run with a longer timeout=",
    )
    return RunEnding(Status.TIMED_OUT, problem=problem_of(error))


def too_long(length: int, limit: int) -> RunEnding:
    error = HistoryLimit(f"the run has {length:,} events since it began; the limit is {limit:,}")
    return RunEnding(Status.FAILED, problem=problem_of(error))


def refused() -> RunEnding:
    problem = Problem(
        code="STORE_REFUSED",
        message="the database cannot hold a value of this run",
        hint="look for text with NUL characters or broken encoding in names, keys and values",
    )
    return RunEnding(Status.FAILED, problem=problem)


def stuck() -> RunEnding:
    error = NotDurable(
        "the workflow waits for something that cannot come: no step, timer, signal or child is open",
        hint="a bare asyncio future, event or queue is never set by the engine; wait with ctx verbs",
    )
    return failed(error)


def endless() -> RunEnding:
    error = NotDurable(
        "the workflow goes round and round without waiting for anything",
        hint="wait with a ctx verb in the loop, for example ctx.sleep; asyncio.sleep(0) does not wait",
    )
    return failed(error)


def poisoned(journal: Journal, losses: int, inbox: Sequence[InboxRow] = ()) -> RunEnding:
    """A run that lost its owner twice, was then run alone, and lost that owner too."""
    culprit = next((path for path, step in journal.steps.items() if step.started), "")
    for row in inbox:
        if row.kind == HELD and row.name in (culprit, ""):
            return _held(row, losses)
    problem = Problem(
        code="WORKER_CRASHED",
        message=f"{losses} workers died while they ran {culprit or 'this run'}",
        hint="look at the workers' exit codes and memory; isolation='process' contains such a step",
        path=culprit,
    )
    return RunEnding(Status.FAILED, problem=problem)


def _held(row: InboxRow, losses: int) -> RunEnding:
    seconds = msgspec.json.decode(row.payload, type=float)
    problem = Problem(
        code="LOOP_HELD",
        message=f"{row.name or 'the code of the workflow'} held the loop of its worker for {seconds:g} s and "
        f"more, so that its lease ran out; {losses} owners were lost like that",
        hint="put what computes or blocks for long into a step that is a plain def: it runs in a thread",
        path=row.name,
    )
    return RunEnding(Status.FAILED, problem=problem)


def _must_be_asked(answer: RecordedResult) -> bool:
    """Code that ends before it asks for this is not the code that wrote the log."""
    return not answer.optional and not isinstance(answer.fact, ev.ChildEnded | ev.CancelRequested)


def finish(run: RunParts, waits: Waits, ending: RunEnding, *, seen: int, where_at: str) -> Finish:
    """Draft the last event and what goes with it: a message to the parent, the end of open children."""
    writer = run.writer
    if ending.status in RETRYABLE:
        waits.keep()
    unconsumed = [*waits.untaken_keys(), *(row.key for row in waits.rows)]
    ending.event = writer.end_with(_last_fact(ending, unconsumed))
    accepted = run.journal.accepted
    if accepted.parent:
        message = EndNotice(
            status=ending.status,
            result=Raw(ending.result or b"null"),
            error=ending.problem,
            run=run.run_id,
        )
        seq = writer.head + len(writer.draft.events)
        ending.messages.append(child_ended(RunId(accepted.parent), accepted.parent_path, seq, message))
    if ending.status is not Status.COMPLETED:
        children = list(waits.open_children())
        reason = f"parent run {run.run_id} is {ending.status}"
        ending.messages.extend(cancel_request(child, reason) for child in children)
        if children:  # they may be anywhere
            writer.after_commit(lambda at: run.services.notifier.notify_work())
    if ending.messages:
        writer.deliver(ending.messages)
    return Finish(
        seen=seen,
        status=ending.status,
        output=ending.result,
        error=msgspec.json.encode(ending.problem) if ending.problem else None,
        where_at=where_at,
        started_at=run.journal.started_at or run.timers.claimed_at,
        words=error_words(ending.problem),
    )


def _last_fact(ending: RunEnding, unconsumed: list[str]) -> ev.Fact:
    if ending.status is Status.COMPLETED:
        return ev.Completed(result=Raw(ending.result or b"null"), unconsumed=unconsumed)
    if ending.status is Status.CANCELLED:
        return ev.Cancelled(reason=ending.reason, error=ending.problem, unconsumed=unconsumed)
    assert ending.problem is not None
    if ending.status is Status.TIMED_OUT:
        return ev.TimedOut(error=ending.problem, unconsumed=unconsumed)
    return ev.Failed(error=ending.problem, unconsumed=unconsumed)


def announce(run: RunParts, then: Finish) -> None:
    """Report to this process, and by a hint to the others, that the run has ended."""
    notifier = run.services.notifier
    if run.services.spans is not None:
        run.services.spans.run_ended(_traced(run, then))
    notifier.notify_end(run.run_id, Ended(then.status, then.output, then.error))
    if run.journal.accepted.parent:
        notifier.notify_work(RunId(run.journal.accepted.parent))


def _traced(run: RunParts, then: Finish) -> EndedRun:
    accepted, error = run.journal.accepted, then.error
    return EndedRun(
        run=TracedRun(run.run_id, accepted.root),
        parent=accepted.parent,
        workflow=accepted.workflow,
        version=accepted.version,
        status=then.status,
        error=msgspec.json.decode(error, type=ev.Problem).code if error else "",
        began=run.journal.accepted_at,
        ended=run.writer.last_at,
    )
