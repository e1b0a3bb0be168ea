"""Why: the exact reason a run does not move, in one sentence and a code."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from stepwell.domain.commit import NEVER, RunRow, TicketRow, WorkerRow
from stepwell.domain.compensation import compensates
from stepwell.domain.holds import read_hold
from stepwell.domain.ids import needs_step
from stepwell.domain.problems import in_words
from stepwell.domain.scope_holds import ScopeHold, read_reason
from stepwell.domain.state import OpenWait, RunState
from stepwell.domain.status import Status

_NAMED_MAX = 5


class Reason(NamedTuple):
    code: str
    text: str
    until: float | None = None


class FullLimit(NamedTuple):
    """A limit that holds a run back; `holders` are some of the runs that have its slots."""

    scope: str
    limit: int
    used: int
    holders: Sequence[str]


def needs_state(run: RunRow, ticket: TicketRow | None, now: float) -> bool:
    """Whether `explain` needs the state: no need to read a long log if the run completed or is queued."""
    if run.status.terminal:
        return run.status is not Status.COMPLETED or run.kind == "machine"
    held = ticket is not None and ticket.held is not None
    return ticket is not None and not held and (bool(ticket.lease) or ticket.due_at > now)


def explain(
    run: RunRow,
    ticket: TicketRow | None,
    state: RunState,
    workers: Sequence[WorkerRow],
    now: float,
    *,
    full: FullLimit | None = None,
) -> Reason:
    """What the run waits for. Pure: everything it needs is passed in."""
    if run.status.terminal:
        reason = in_words(state.error) if state.error else state.reason
        cause = f": {reason}" if reason else ""
        where = f" at {_place(state)!r}" if run.kind == "machine" else ""
        return Reason("ended", f"the run is {run.status}{where}{cause}{_not_undone(state)}")
    if ticket is None:
        return Reason("lost", "the run is not in the queue; please report this")
    if ticket.held is not None:
        return _held(ticket, workers)
    if ticket.lease:
        return _owned(ticket, state, workers, now)
    live = [worker for worker in workers if worker.lease_until > now]
    if ticket.due_at > now:
        return _retrying(ticket, state) or _waiting(ticket, state, live)
    queued = _queued(ticket, live, silent=[worker for worker in workers if worker not in live])
    return _limited(full) if full is not None and queued.code == "queued" else queued


def _not_undone(state: RunState) -> str:
    """The steps that a person has to undo by hand, or by retrying the run."""
    undo = state.compensation
    if undo is None or (undo.completed and not undo.failed):
        return ""
    done = {path for path, step in state.steps.items() if step.status == "completed"}
    left = undo.failed if undo.completed else [s for s in undo.steps if compensates(s) not in done]
    named = ", ".join(_with_error(path, state) for path in left[:_NAMED_MAX])
    more = f" and {len(left) - _NAMED_MAX} more" if len(left) > _NAMED_MAX else ""
    return f"; not undone: {named}{more}" if left else ""


def _with_error(path: str, state: RunState) -> str:
    step = state.steps.get(compensates(path))
    return f"{path} ({in_words(step.error)})" if step is not None and step.error is not None else path


def held_by_scope(hold: ScopeHold) -> Reason:
    """Explain that its workflow, queue or workspace is held."""
    what = f"{hold.kind} {(hold.name or hold.workspace)!r}"
    reason = read_reason(hold)
    text = f"{hold.by or 'somebody'} held {what} at {_clock(hold.at)}{f': {reason}' if reason else ''}"
    return Reason("held", f"{text}; release it to let its runs continue")


def _held(ticket: TicketRow, workers: Sequence[WorkerRow]) -> Reason:
    hold = read_hold(ticket.held or b"{}")
    text = f"{hold.by or 'somebody'} held it at {_clock(hold.at)}{f': {hold.reason}' if hold.reason else ''}"
    if ticket.lease:
        owner = next((w for w in workers if w.id == ticket.owner), None)
        worker = _named(owner) if owner is not None else ticket.owner
        return Reason("held", f"{text}; worker {worker} still runs what had begun")
    return Reason("held", f"{text}; release it to let it continue")


def _owned(ticket: TicketRow, state: RunState, workers: Sequence[WorkerRow], now: float) -> Reason:
    owner = next((w for w in workers if w.id == ticket.owner), None)
    if owner is None:
        return Reason("lease", f"its worker {ticket.owner} is gone; it is taken over with the next sweep")
    if owner.lease_until <= now:
        return _overdue(owner, ticket, workers, now)
    running = [s.path for s in state.steps.values() if s.status == "running"]
    doing = f" and runs {', '.join(running[:3])}" if running else ""
    return Reason(
        "lease",
        f"worker {_named(owner)} owns it{doing}; its lease lasts until {_clock(owner.lease_until)}",
        owner.lease_until,
    )


def _overdue(owner: WorkerRow, ticket: TicketRow, workers: Sequence[WorkerRow], now: float) -> Reason:
    """The lease has expired, but nobody has reaped the worker yet: it may still come back."""
    late = f"worker {_named(owner)} owns it and is silent; its lease ran out at {_clock(owner.lease_until)}"
    live = [worker for worker in workers if worker.lease_until > now]
    able = [worker for worker in live if ticket.needs in worker.needs and ticket.queue in worker.queues]
    if not able:
        return Reason("lease", f"{late}, and no other worker is running that could take it over")
    others = " or ".join(_named(worker) for worker in able[:3])
    return Reason("lease", f"{late}: {others} takes it over after the next sweep")


def _named(worker: WorkerRow) -> str:
    return worker.name or worker.id


def _retrying(ticket: TicketRow, state: RunState) -> Reason | None:
    """A step, a retry container of a graph or a transition waits for its next attempt."""
    if steps := [step for step in state.steps.values() if step.status == "retrying"]:
        step = min(steps, key=lambda s: s.retry_at or 0)
        again = f"{step.path} is tried again at {_clock(ticket.due_at)} (attempt {step.attempt + 1})"
        return Reason("retry", again, step.retry_at)
    if waits := [wait for wait in state.waits.values() if wait.what == "retry"]:
        wait = min(waits, key=lambda w: w.due_at or 0)
        place, _, attempt = wait.path.partition("@")[0].rpartition("#")
        again = f"{place} is tried again at {_clock(wait.due_at or 0)} (attempt {int(attempt) + 1})"
        return Reason("retry", again, wait.due_at)
    if state.retry_at is not None and not state.waits:
        after = f"attempt {state.retry_attempt}, after: {in_words(state.error) if state.error else ''}"
        again = f"{state.failing} at {_place(state)!r} is tried again at {_clock(ticket.due_at)} ({after})"
        return Reason("retry", again, state.retry_at)
    return None


def _waiting(ticket: TicketRow, state: RunState, workers: Sequence[WorkerRow]) -> Reason:
    if not ticket.started:
        return Reason("delayed", f"its start is delayed until {_clock(ticket.due_at)}", ticket.due_at)
    due = None if ticket.due_at == NEVER else ticket.due_at
    asked = [wait for wait in state.waits.values() if not wait.is_part_of_node]
    waits = [_words(wait, workers) + _refused(wait, state) for wait in asked]
    text = "waits for " + (", ".join(waits[:3]) or "a message")
    return Reason("waits", text + (f" until {_clock(due)}" if due else ""), due)


def _words(wait: OpenWait, workers: Sequence[WorkerRow]) -> str:
    if wait.what == "timer":
        return "a timer"
    if wait.what == "child":
        return f"child run {wait.key} ({wait.name})"
    if wait.what == "step":
        there = [worker for worker in workers if wait.key in worker.queues]
        able = [worker for worker in there if needs_step(wait.name) in worker.needs]
        lack = (
            "" if able else " (no worker there has it)" if there else " (no worker of that queue is running)"
        )
        return f"step {wait.name} on queue {wait.key!r}{lack}"
    if wait.what == "trigger":
        return f"{' or '.join(choice.name for choice in wait.choices)} to be triggered at {wait.name!r}"
    return f"{wait.what} {wait.name!r}"


def _refused(wait: OpenWait, state: RunState) -> str:
    refused = [f"{name}: {state.refused[name]}" for name in wait.names if name in state.refused]
    return f" ({'; '.join(refused)})" if refused else ""


def _place(state: RunState) -> str:
    return state.checkpoint.place if state.checkpoint is not None else "start"


def _queued(ticket: TicketRow, workers: Sequence[WorkerRow], *, silent: Sequence[WorkerRow]) -> Reason:
    """`silent`: workers whose leases have expired, with nobody left to reap them."""
    able = [w for w in workers if ticket.needs in w.needs]
    if not workers and silent:
        last = max(silent, key=lambda worker: worker.lease_until)
        silence = f"{_named(last)} is silent; its lease ran out at {_clock(last.lease_until)}"
        return Reason("no_worker", f"no worker is running: {silence}")
    if not workers:
        return Reason("no_worker", "no worker is running")
    if not able:
        return Reason(
            "no_worker",
            f"no worker has {ticket.needs}; there are {len(workers)} workers with other workflows",
        )
    if not any(ticket.queue in w.queues for w in able):
        return Reason("no_worker", f"no worker of queue {ticket.queue!r} is running")
    if ticket.losses >= 2:
        return Reason(
            "solo", f"it lost {ticket.losses} workers and waits for an idle one that takes it alone"
        )
    return Reason("queued", f"it waits in queue {ticket.queue!r} for a free slot")


def _limited(full: FullLimit) -> Reason:
    named = ", ".join(full.holders)
    more = full.used - len(full.holders)
    held = f"; held by {named}" + (f" and {more} more" if more > 0 else "") if named else ""
    return Reason("limit", f"the limit of {full.scope} is reached: {full.used} of {full.limit} runs{held}")


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
