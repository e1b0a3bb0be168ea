"""State: what a run's log says about the run. Folding the log is the only way to know; this is the fold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.codec import codec_for
from stepwell.domain.commit import RunRow
from stepwell.domain.event_types import is_part_of_node
from stepwell.domain.events import Event, Problem
from stepwell.domain.messages import decide_key
from stepwell.domain.status import Status
from stepwell.domain.usage import NOTHING_USED, Usage


@dataclass(slots=True)
class StepState:
    path: str
    status: str  # scheduled | running | retrying | completed | failed | cancelled
    attempt: int = 0
    error: Problem | None = None
    retry_at: float | None = None


@dataclass(slots=True)
class OpenChoice:
    """A transition that a person may trigger; `form` is the JSON Schema of its argument."""

    name: str
    form: Any = None
    title: str = ""


@dataclass(slots=True)
class OpenWait:
    path: str
    what: str  # signal | event | approval | timer | retry | child
    name: str = ""
    key: str = ""
    due_at: float | None = None
    form: Any = None  # the JSON Schema of its answer
    title: str = ""
    assignees: list[str] = field(default_factory=list)
    choices: list[OpenChoice] = field(default_factory=list)  # for a trigger: the possible transitions
    trigger: str = ""  # for a child: the transition that its result triggers
    required: int = 1  # for approvals: how many people must approve
    approved_by: list[str] = field(default_factory=list)  # who has approved so far
    bar_starter: bool = False  # for approvals: bars the person who started the run
    reminded_at: float | None = None  # time of the last reminder

    @property
    def is_part_of_node(self) -> bool:
        """Whether it only helps another wait: a node that waits for an event has a mailbox as well."""
        return self.what == "signal" and is_part_of_node(self.path)

    @property
    def names(self) -> list[str]:
        """The names to which messages that answer it are addressed."""
        if self.what == "signal":
            return [self.name]
        return [self.path] if self.what in ("approval", "event") else [choice.name for choice in self.choices]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A machine after a transition: its place, its state and the checkpoint's number."""

    version: int
    place: str
    state: Raw
    documents: tuple[str, ...] = ()
    transition: str = ""
    seq: int = 0
    at: float = 0.0
    forkable: bool = True  # for a function: nothing was open

    def read(self, type: Any = Any) -> Any:
        """The state as a value of that type, or as plain JSON."""
        return codec_for(type).decode(self.state)

    def __repr__(self) -> str:
        return f"<checkpoint {self.version} at {self.place!r}, seq {self.seq}: {bytes(self.state).decode()}>"


@dataclass(slots=True)
class CompensationState:
    """The steps that are undone because the run ends badly."""

    steps: list[str]
    failed: list[str] = field(default_factory=list)
    completed: bool = False


@dataclass(frozen=True, slots=True)
class HeldState:
    """Since when a run is held, who held it and why."""

    at: float
    by: str = ""
    reason: str = ""


@dataclass(slots=True)
class RunState:
    status: Status = Status.PENDING
    output: Raw | None = None
    error: Problem | None = None
    reason: str = ""  # why it was cancelled, if a reason was given
    generation: int = 0
    lease: str = ""
    worker: str = ""
    steps: dict[str, StepState] = field(default_factory=dict)
    waits: dict[str, OpenWait] = field(default_factory=dict)
    approvals: dict[str, list[str]] = field(
        default_factory=dict
    )  # by path: who has approved a question that is still open
    refused: dict[str, str] = field(default_factory=dict)  # by name: why the last message answered no wait
    unconsumed: list[str] = field(default_factory=list)
    progress: ev.Progress | None = None
    compensation: CompensationState | None = None
    outputs: dict[str, Raw] = field(default_factory=dict)  # results of steps and children, by path
    input: Any = None
    variables: dict[str, Any] = field(default_factory=dict)  # variables of a graph
    nodes: dict[str, Any] = field(default_factory=dict)  # outputs of a graph by the place of their node
    checkpoint: Checkpoint | None = None  # of a machine
    has_error: bool = False  # it failed, or a transition has failed since
    failing: str = ""  # that transition
    retry_at: float | None = None  # when its next attempt begins
    retry_attempt: int = 0
    trigger: str = ""  # what started it
    started_by: str = ""
    cancelled_by: str = ""
    forced: bool = False  # ended by force, without cleanup
    held: HeldState | None = None  # by its log; the run may be held before its owner writes that
    retried_by: str = ""  # who retried it last
    usage: Usage = NOTHING_USED  # what its steps used, in all generations
    steps_done: int = 0  # steps, transitions and nodes that reached their end, in all generations
    active_seconds: float = 0.0  # until the last event, without the time that it was suspended
    suspended_at: float | None = None  # when it last began to wait
    last_at: float = 0.0  # of its last event that no operator caused
    owned_since: float = 0.0  # 0: it has ended, or was never claimed
    unowned_at: float = 0.0  # since when nobody owns it because it waits or was held; 0: somebody may
    copied: int = 0  # events of another run at the beginning of this log


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOverview:
    """A run in a few numbers. Times are seconds."""

    number: int
    trigger: str
    started_by: str
    status: Status
    elapsed: float  # since it was accepted, until its end or now
    active: float  # without the time that it was suspended
    steps: int  # steps of a function, transitions of a machine, nodes of a graph
    suspended_at: float | None
    done: float | None = None  # progress, as last reported by its loop or its code
    total: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


def overview_of(row: RunRow, state: RunState, now: float) -> RunOverview:
    """The run at that time, from its row and the fold of its log."""
    until = row.ended_at or max(now, row.created_at)
    works = row.status is Status.RUNNING and bool(state.owned_since) and not state.unowned_at
    return RunOverview(
        number=row.number,
        trigger=row.trigger,
        started_by=row.started_by,
        status=row.status,
        elapsed=until - row.created_at,
        active=state.active_seconds + (max(0.0, now - state.last_at) if works else 0.0),
        steps=state.steps_done,
        suspended_at=state.suspended_at,
        done=row.done,
        total=row.total,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cost=row.cost,
    )


def fold(events: Iterable[Event]) -> RunState:
    """The state after these events; folding a prefix gives the state at that point."""
    state = RunState()
    for event in events:
        apply(state, event)
    if state.owned_since:
        state.active_seconds += max(0.0, (state.unowned_at or state.last_at) - state.owned_since)
    if not state.status.terminal and state.waits and not _works(state):
        state.status = Status.SUSPENDED
        state.unowned_at = state.suspended_at = state.unowned_at or state.last_at
    return state


def _count(state: RunState, event: Event) -> None:
    """Add up time and steps. What a fork copied is not its own."""
    fact = event.fact
    if event.seq <= state.copied:
        return
    if isinstance(fact, ev.Claimed):
        since = fact.since or event.at
        if state.owned_since:
            parked = bool(state.waits) and not _works(state)
            until = state.unowned_at or (state.last_at if parked else min(since, _again_by(state, since)))
            state.active_seconds += max(0.0, until - state.owned_since)
            state.suspended_at = until if parked else state.suspended_at
        state.owned_since, state.unowned_at = since, 0.0
    elif isinstance(fact, ev.StepCompleted | ev.StepFailed | ev.TransitionCompleted | ev.NodeCompleted):
        state.steps_done += not isinstance(fact, ev.StepFailed) or fact.retry_in is None
    elif isinstance(fact, ev.UsageReported):
        state.usage = state.usage.plus(
            Usage(input_tokens=fact.input_tokens, output_tokens=fact.output_tokens, cost=fact.cost)
        )
    elif isinstance(fact, ev.ENDINGS) and state.owned_since:
        state.active_seconds += max(0.0, (state.unowned_at or event.at) - state.owned_since)
        state.owned_since = state.unowned_at = 0.0
    if not isinstance(fact, ev.Held | ev.Released):
        state.last_at = event.at


def _again_by(state: RunState, since: float) -> float:
    """When the last of what is tried again was due: a run may be held, or wait for a slot, long after it."""
    if any(step.status in ("scheduled", "running") for step in state.steps.values()):
        return since
    again = [step.retry_at for step in state.steps.values() if step.retry_at is not None]
    again += [wait.due_at for wait in state.waits.values() if wait.what == "retry" and wait.due_at]
    return max(state.last_at, *again) if again else since


def _works(state: RunState) -> bool:
    if any(wait.what == "retry" for wait in state.waits.values()):
        return True
    return any(step.status in ("scheduled", "running", "retrying") for step in state.steps.values())


def apply(state: RunState, event: Event) -> None:
    """Take one event in."""
    fact = event.fact
    _count(state, event)
    match fact:
        case ev.Accepted():
            state.trigger, state.started_by = fact.trigger, fact.by
            state.copied = fact.origin.copied if fact.origin is not None else 0
        case ev.CancelRequested():
            state.reason, state.cancelled_by, state.held = fact.reason, fact.by, None
        case ev.Suspended():
            state.unowned_at = event.at
            if not fact.held:
                state.status, state.suspended_at = Status.SUSPENDED, event.at
        case ev.Claimed():
            state.status, state.lease, state.worker = Status.RUNNING, fact.lease, fact.worker
        case ev.StepScheduled() | ev.StepStarted() | ev.StepCompleted() | ev.StepFailed():
            _apply_step(state, event)
        case ev.TimerSet() | ev.WaitOpened() | ev.ChildStarted():
            _open_wait(state, event)
        case ev.DelayChanged() if event.path in state.waits:
            state.waits[event.path].due_at = event.at + fact.seconds
        case ev.TimerFired() | ev.WaitEnded() | ev.ChildEnded():
            _close_wait(state, event)
            if isinstance(fact, ev.ChildEnded):
                state.outputs[event.path] = fact.result
            elif event.path in state.steps:  # no longer wanted
                step = state.steps[event.path]
                step.status, step.retry_at = "cancelled", None
        case ev.Received() if fact.rejected:
            sender, _, path = fact.key.partition("/")
            what = f"the result of child {path}" if sender == "child" else "the last message"
            state.refused[fact.name] = f"{what} does not fit: {fact.rejected}"
            approvers = state.approvals.get(fact.name, [])
            approvers[:] = [name for name in approvers if fact.key != decide_key(fact.name, name)]
        case ev.Received() | ev.WaitReassigned() | ev.WaitReminded():
            _note_approval(state, event)
        case ev.Progress():
            state.progress = fact
        case ev.CompensationStarted():
            state.compensation = CompensationState(list(fact.steps))
            state.waits.clear()
        case ev.CompensationCompleted() if state.compensation is not None:
            state.compensation.failed, state.compensation.completed = list(fact.failed), True
        case ev.TransitionCompleted():
            _arrive(state, event, fact)
        case ev.TransitionFailed():
            state.has_error, state.error, state.failing = True, fact.error, fact.transition
            state.retry_at = None if fact.retry_in is None else event.at + fact.retry_in
            state.retry_attempt = event.attempt + 1
        case ev.Held():
            state.held = HeldState(event.at, fact.by, fact.reason)
        case ev.Released():
            state.held = None
        case ev.Retried():
            state.status, state.error, state.unconsumed = Status.RUNNING, None, []
            state.has_error = state.has_error and fact.undo
            state.retried_by = fact.by
        case ev.Continued():
            state.generation = fact.generation
            state.approvals.clear()
            state.steps.clear()
            state.outputs.clear()
            state.waits.clear()
            state.refused.clear()
        case ev.Completed() | ev.Failed() | ev.Cancelled() | ev.TimedOut():
            _end(state, fact)
        case _:
            pass


def _arrive(state: RunState, event: Event, fact: ev.TransitionCompleted) -> None:
    state.checkpoint = Checkpoint(
        version=fact.version,
        place=fact.target,
        state=fact.state,
        documents=tuple(fact.documents),
        transition=fact.transition,
        seq=event.seq,
        at=event.at,
    )
    state.has_error, state.error, state.retry_at = False, None, None
    state.approvals.clear()
    state.steps.clear()
    state.outputs.clear()
    state.waits = {path: wait for path, wait in state.waits.items() if path in fact.children}
    for path in fact.triggers.keys() - fact.children.keys():  # a fork has no children of the old run
        state.refused[fact.triggers[path]] = f"child {path} reports to the run that this one was forked from"


def _apply_step(state: RunState, event: Event) -> None:
    fact, path = event.fact, event.path
    step = state.steps.setdefault(path, StepState(path, "running"))
    step.attempt = max(step.attempt, event.attempt)
    match fact:
        case ev.StepScheduled():
            step.status = "scheduled"
            due = event.at + fact.timeout if fact.timeout is not None else None
            state.waits[path] = OpenWait(path, "step", name=fact.step, key=fact.queue, due_at=due)
        case ev.StepStarted():
            step.status = "running"
        case ev.StepCompleted():
            step.status, step.error, step.retry_at = "completed", None, None
            state.outputs[path] = fact.result
            state.waits.pop(path, None)
        case ev.StepFailed():
            state.waits.pop(path, None)
            step.error = fact.error
            step.status = "failed" if fact.retry_in is None else "retrying"
            step.retry_at = None if fact.retry_in is None else event.at + fact.retry_in
        case _:
            raise AssertionError(fact)


def _open_wait(state: RunState, event: Event) -> None:
    fact, path = event.fact, event.path
    match fact:
        case ev.TimerSet():
            what = "retry" if fact.retry else "timer"
            state.waits[path] = OpenWait(path, what, due_at=event.at + fact.seconds)
        case ev.WaitOpened():
            state.waits[path] = OpenWait(
                path,
                fact.what,
                name=fact.name,
                key=fact.key,
                due_at=event.at + fact.timeout if fact.timeout is not None else None,
                form=msgspec.json.decode(fact.form),
                title=fact.title,
                assignees=fact.assignees,
                required=fact.required,
                approved_by=state.approvals.setdefault(path, []) if fact.required > 1 else [],
                bar_starter=fact.bar_starter,
                choices=[
                    OpenChoice(choice.name, msgspec.json.decode(choice.form), choice.title)
                    for choice in fact.choices
                ],
            )
            state.refused.pop(path, None)  # it was about an earlier wait at this path
        case ev.ChildStarted() if not fact.detached:
            state.waits[path] = OpenWait(
                path, "child", name=fact.workflow, key=fact.run, trigger=fact.trigger
            )
        case _:
            pass


def _note_approval(state: RunState, event: Event) -> None:
    """One of several people has approved, or others are to decide."""
    fact = event.fact
    wait = state.waits.get(fact.name if isinstance(fact, ev.Received) else event.path)
    if wait is None or wait.what != "approval":
        return
    match fact:
        case ev.Received(what="decide") if wait.required > 1 and fact.by not in wait.approved_by:
            wait.approved_by.append(fact.by)
        case ev.WaitReassigned():
            wait.assignees = fact.assignees
        case ev.WaitReminded():
            wait.reminded_at = event.at
        case _:
            pass


def _close_wait(state: RunState, event: Event) -> None:
    wait, fact = state.waits.pop(event.path, None), event.fact
    if wait is None:
        return
    if isinstance(fact, ev.WaitEnded):
        for name in wait.names:
            state.refused.pop(name, None)
        if fact.outcome != "withdrawn":
            state.approvals.pop(event.path, None)
    elif isinstance(fact, ev.ChildEnded) and wait.trigger and fact.status != "completed":
        state.refused[wait.trigger] = f"child run {wait.key} ended as {fact.status} and triggers nothing"


def _end(state: RunState, fact: ev.Completed | ev.Failed | ev.Cancelled | ev.TimedOut) -> None:
    state.unconsumed, state.held = fact.unconsumed, None
    state.waits.clear()
    match fact:
        case ev.Completed():
            state.status, state.output = Status.COMPLETED, fact.result
        case ev.Failed():
            state.status, state.error, state.has_error = Status.FAILED, fact.error, True
        case ev.Cancelled():
            state.status, state.reason = Status.CANCELLED, fact.reason
            state.cancelled_by = fact.by or state.cancelled_by
            state.forced = fact.forced
        case ev.TimedOut():
            state.status, state.error, state.has_error = Status.TIMED_OUT, fact.error, True
