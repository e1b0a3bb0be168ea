"""Journal: a run's log, read once and arranged for its replay.

Answers are what releases workflow code: step results, fired timers, ended waits and children, in
log order. The rest says how far each path got: attempts, open timers, waits and children.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain import events as ev
from stepwell.domain.commit import LogRow, NewRun
from stepwell.domain.compensation import note_done
from stepwell.domain.cursors import Cursors, just_after, move, read_cursors
from stepwell.domain.documents import is_direct
from stepwell.domain.events import Event
from stepwell.domain.messages import decide_key, decides
from stepwell.domain.status import Status
from stepwell.engine.run.answers import RecordedResult, result_path
from stepwell.engine.run.machine_state import Attempts, arrive, begin_anew, note_visit, open_calls


def count_active(journal: Journal, until: float) -> None:
    """Time since the last claim is time that the run was not suspended, while it had nothing to wait for,
    or a step was with another worker, or something was to be tried again."""
    if journal.claimed_at:
        until = _active_until(journal, until)
        if journal.held_seq == journal.head:
            until = min(until, journal.held_at)
        journal.active_seconds += max(0.0, until - journal.claimed_at)
    journal.claimed_at = 0.0


def _active_until(journal: Journal, until: float) -> float:
    """When the last owner's time was over; what came into the log since then is not its work."""
    if journal.suspended:
        return journal.suspended_at
    steps, timers = journal.steps.values(), journal.timers.values()
    if any(step.scheduled_at is not None for step in steps):
        return until
    again = [step.retry_at for step in steps if step.retry_at is not None]
    again += [timer.due_at for timer in timers if timer.fact.retry]
    if again:  # it may be held, or wait for a slot, long after its delay
        return min(until, max(journal.last_at, *again))
    return journal.last_at if timers or journal.waits or journal.children else until


def count_from(journal: Journal, active: float, at: float) -> None:
    """Set what was active until then. Events that a fork copied count the old run's time, not its own."""
    origin = journal.accepted.origin
    copied = origin is not None and journal.head <= origin.copied
    journal.active_seconds, journal.claimed_at = (0.0, 0.0) if copied else (active, at)


@dataclass(slots=True)
class StepRecord:
    """How far a step got before it was answered."""

    attempt: int = 0  # the highest that was recorded
    failures: int = 0  # since the last retry by a person
    retry_at: float | None = None
    scheduled_at: float | None = None  # a remote ticket is open for this attempt
    timeout: float | None = None
    started: bool = False

    @property
    def working(self) -> bool:
        """With another worker, or to be tried again: the run is not suspended meanwhile (GR-P1)."""
        return self.scheduled_at is not None or self.retry_at is not None

    @property
    def open(self) -> bool:
        return self.working or self.started


class SetTimer(NamedTuple):
    """A timer that has not fired."""

    fact: ev.TimerSet
    due_at: float


@dataclass(slots=True)
class Opened:
    """A wait that was registered."""

    fact: ev.WaitOpened
    at: float


@dataclass(slots=True)
class ReceivedMessage:
    """A signal, event or decision that is in the log."""

    key: str
    what: str
    name: str
    payload: Raw
    seq: int  # of its Received; 0: it is none


class Opening(NamedTuple):
    """A wait, a timer or a remote step that the log has open, and where it was opened."""

    seq: int
    fact: ev.WaitOpened | ev.TimerSet | ev.StepScheduled


class Journal(msgspec.Struct, eq=False):
    """What a run's log says so far. A struct: a dataclass with this many fields takes twice as long."""

    accepted: ev.Accepted
    accepted_at: float
    generation: int = 0
    input: Raw = ev.NULL
    seed: str = ""
    head: int = 0
    last_at: float = 0.0
    started_at: float = 0.0
    retries: int = 0
    claims: int = 0
    active_seconds: float = 0.0
    cancel_reason: str = ""
    cancelled: set[str] | None = None  # what the code was in when the run was cancelled
    answers: deque[RecordedResult] = msgspec.field(default_factory=deque)
    steps: dict[str, StepRecord] = {}
    timers: dict[str, SetTimer] = {}
    waits: dict[str, Opened] = {}
    opened: dict[str, Opening] = {}  # by path: what the code must ask for again, also after a retry
    children: dict[str, ev.ChildStarted] = {}
    lost: dict[str, NewRun | None] = {}  # children to be started again
    values: dict[str, Raw] = {}
    messages: dict[str, ReceivedMessage] = {}  # received, not taken by a wait yet
    taken: dict[str, ReceivedMessage] = {}  # by key: what answered a wait
    news: set[str] = set()  # paths of news that were recorded
    keys: dict[str, None] = {}  # of messages that were taken, oldest first
    cursors: Cursors = {}  # how far broadcast events were taken
    failed: ev.Failed | ev.TimedOut | None = None
    saved: dict[str, list[tuple[int, ev.DocumentSaved]]] = {}  # not visible yet
    documents: dict[str, ev.Kept] = {}  # of a function: what its code may see
    document_ids: Sequence[str] = ()  # of a machine: ids at its last checkpoint
    undoable: dict[str, ev.StepCompleted] = {}  # in log order
    undoes: ev.Failed | ev.TimedOut | None = None  # how it had ended, before a person asked to undo it
    compensation: ev.CompensationStarted | None = None
    compensated: bool = False
    place: str = ""  # of a machine, with the fields below; '' has not left its start
    version: int = 0  # number of its last checkpoint
    state: Raw | None = None
    routed_by: ev.Problem | None = None  # the failure that led to this place
    chosen: str = ""  # the transition that this visit began with, according to the log
    triggered: bool = False  # its question was answered, according to the log
    attempts: Attempts = msgspec.field(default_factory=Attempts)
    lease: str = ""
    claimed_at: float = 0.0
    suspended: bool = False  # it waits or was held, and nobody has owned it since
    suspended_at: float = 0.0
    held_seq: int = 0  # of the last Held or Released
    held_at: float = 0.0  # of the first one in a row of them
    by_visits: bool = False  # of a machine

    @property
    def replays(self) -> bool:
        return bool(self.answers)

    @property
    def seed_now(self) -> str:
        """What ctx.random() draws from: a fork's code draws as the old run did while it replays the
        copy, and its own from there on."""
        origin = self.accepted.origin
        if origin is None or (self.answers and self.answers[0].seq <= origin.copied):
            return self.seed
        return f"{origin.salt}/{self.seed}"


def read_journal(rows: Sequence[LogRow], now: float = 0.0, *, by_visits: bool = False) -> Journal:
    """Fold a run's log, claimed at `now`: its first event, then all since it last continued as new.

    The log of a machine is read visit by visit.
    """
    first = ev.read(rows[0])
    assert isinstance(first.fact, ev.Accepted)
    journal = Journal(first.fact, first.at, input=first.fact.input, seed=first.fact.seed)
    journal.by_visits = by_visits
    journal.head, journal.last_at = first.seq, first.at
    for row in islice(rows, 1, None):
        event = ev.read(row)
        absorb(journal, event)
        if by_visits:
            note_visit(journal, event)
    count_active(journal, max(now, journal.last_at))
    return journal


def absorb(journal: Journal, event: Event) -> None:
    """Take one event in. Also used for what this owner writes, so that both ways agree."""
    fact, path = event.fact, event.path
    if isinstance(fact, ev.Claimed):
        count_active(journal, fact.since or event.at)
    journal.head, journal.last_at = event.seq, event.at
    if fact.starts:
        journal.news.update([f"node_started {started}" for started in fact.starts])
    match fact:
        case ev.StepCompleted() | ev.TimerFired() | ev.ChildEnded():
            _answered(journal, event)
            if isinstance(fact, ev.StepCompleted) and fact.undo is not None:
                note_done(journal.undoable, path, fact)
        case ev.CancelRequested():
            journal.cancel_reason, journal.cancelled = fact.reason, open_calls(journal)
            _answered(journal, event)
        case ev.VariableSet():
            journal.keys[fact.key] = None
            _answered(journal, event)
        case ev.StepFailed():
            _step_failed(journal, event, fact)
        case ev.StepStarted():
            step = journal.steps.setdefault(path, StepRecord())
            step.attempt, step.started = max(step.attempt, event.attempt), True
        case ev.StepScheduled():
            step = journal.steps.setdefault(path, StepRecord())
            step.attempt, step.scheduled_at, step.timeout = event.attempt, event.at, fact.timeout
            step.retry_at = None
            journal.opened[path] = Opening(event.seq, fact)
        case ev.TimerSet():
            journal.timers[path] = SetTimer(fact, event.at + fact.seconds)
            journal.opened[path] = Opening(event.seq, fact)
        case ev.DelayChanged() if path in journal.timers:
            journal.timers[path] = journal.timers[path]._replace(due_at=event.at + fact.seconds)
        case ev.WaitOpened():
            journal.waits[path] = Opened(fact, event.at)
            journal.opened[path] = Opening(event.seq, fact)
            if fact.what == "event":
                move(journal.cursors, fact.name, fact.key, fact.since)
            journal.keys.pop(decide_key(path), None)  # it was about another question at this path
        case ev.WaitEnded():
            _wait_ended(journal, event, fact)
        case ev.Received():
            journal.keys[fact.key] = None
            if fact.at and (opened := journal.waits.get(fact.name)) is not None:
                wait = opened.fact
                move(journal.cursors, wait.name, wait.key, just_after(fact.at))
            if fact.rejected:
                journal.messages.pop(fact.key, None)
                if fact.what == "decide":
                    journal.keys.pop(fact.key, None)  # a fitting decision may follow
            else:
                name = fact.choice or fact.name
                journal.messages[fact.key] = ReceivedMessage(
                    fact.key, fact.what, name, fact.payload, event.seq
                )
        case ev.ChildStarted():
            _child_started(journal, event, fact)
        case ev.ValueRecorded():
            journal.values[path] = fact.value
        case ev.Published() | ev.Progress():
            journal.news.add(path)
        case ev.NodeFact():
            journal.news.add(f"{event.kind} {path}")
        case ev.DocumentSaved():
            journal.news.add(path)
            if journal.by_visits or not is_direct(path):  # else the code saves it again
                journal.saved.setdefault(path, []).append((event.attempt, fact))
        case _:
            _absorb_run_fact(journal, event)


def _absorb_run_fact(journal: Journal, event: Event) -> None:
    match event.fact:
        case ev.Claimed() as claimed:
            journal.claims += 1
            journal.lease, journal.suspended = claimed.lease, False
            journal.claimed_at = claimed.since or event.at
            journal.started_at = journal.started_at or event.at
        case ev.Suspended():
            journal.suspended, journal.suspended_at = True, event.at
        case ev.Held() | ev.Released():
            journal.held_at = journal.held_at if journal.held_seq == event.seq - 1 else event.at
            journal.held_seq = event.seq
        case ev.Failed() | ev.TimedOut() as failed:
            journal.failed = failed
        case ev.Retried(undo=True) if journal.compensation is None:
            _undoing(journal)
        case ev.Retried():
            _retried(journal, event.seq)
        case ev.Continued() as continued:
            _continued(journal, continued)
        case ev.CompensationStarted() as started:
            _compensating(journal, started)
        case ev.CompensationCompleted():
            journal.compensated = True
        case ev.TransitionCompleted() as completed:
            _transition_completed(journal, completed, event.at)
        case ev.TransitionFailed() as failure:
            journal.attempts.failed(event, failure)
            begin_anew(journal)
        case _:
            pass


def _answered(journal: Journal, event: Event) -> None:
    path, fact = event.path, event.fact
    journal.steps.pop(path, None)
    journal.opened.pop(path, None)
    timer = journal.timers.pop(path, None)
    if isinstance(fact, ev.ChildEnded):
        started = journal.children.pop(path, None)
        called = called_back(path, started, fact)
        if called is not None:
            journal.messages[called.key] = called
        path = result_path(path)
    journal.answers.append(
        RecordedResult(event.seq, path, fact, asked=timer.fact if timer is not None else None)
    )


def called_back(path: str, started: ev.ChildStarted | None, ended: ev.ChildEnded) -> ReceivedMessage | None:
    """The message that a child's result is to the machine which started it with `trigger=`."""
    if started is None or not started.trigger or ended.status != "completed":
        return None
    return ReceivedMessage(f"child/{path}", "signal", started.trigger, ended.result, 0)


def _step_failed(journal: Journal, event: Event, fact: ev.StepFailed) -> None:
    step = journal.steps.setdefault(event.path, StepRecord())
    step.attempt, step.failures = max(step.attempt, event.attempt), step.failures + 1
    step.scheduled_at, step.started = None, False
    if fact.retry_in is None:
        _answered(journal, event)
        journal.steps[event.path] = step  # a retry by a person counts its attempts on
    else:
        step.retry_at = event.at + fact.retry_in


def _wait_ended(journal: Journal, event: Event, fact: ev.WaitEnded) -> None:
    opened = journal.waits.pop(event.path, None)
    journal.opened.pop(event.path, None)
    journal.timers.pop(event.path, None)
    step = journal.steps.get(event.path)
    if step is not None:  # no longer wanted
        step.scheduled_at, step.retry_at, step.started = None, None, False
    message = journal.messages.pop(fact.received, None)
    if message is not None:
        journal.taken[fact.received] = message
    if opened is not None and opened.fact.required > 1 and fact.outcome != "withdrawn":
        _forget_approvals(journal, event.path)
    if fact.outcome != "withdrawn":
        asked = opened.fact if opened is not None else None
        journal.answers.append(RecordedResult(event.seq, event.path, fact, asked=asked))


def _forget_approvals(journal: Journal, path: str) -> None:
    """The question was answered: people may decide again if it is asked again."""
    for key in [key for key in journal.keys if decides(key, path)]:
        journal.messages.pop(key, None)
        journal.keys.pop(key, None)


def _retried(journal: Journal, seq: int) -> None:
    """Forget the failure that ended the run; what was recorded after it may not be asked for again."""
    path = journal.failed.error.path if journal.failed else ""
    journal.failed = None
    journal.retries += 1
    count_from(journal, 0.0, 0.0)  # the whole of its timeout again
    journal.attempts.retried()
    failure = max(
        (a.seq for a in journal.answers if path and a.path in (path, result_path(path))), default=seq
    )
    others = (a for a in journal.answers if not (path and a.path in (path, result_path(path))))
    journal.answers = deque(replace(a, optional=True) if a.seq > failure else a for a in others)
    journal.opened = {p: opening for p, opening in journal.opened.items() if opening.seq < failure}
    step = journal.steps.get(path)
    if step is not None:
        step.failures, step.retry_at = 0, None
    # The failure closed all that was open: waits open anew, remote steps are sent out again, and
    # children start again when the replay has passed the place at which they were started.
    journal.waits.clear()
    for step in journal.steps.values():
        step.scheduled_at = None
    lost = [child for child, started in journal.children.items() if not started.detached]
    for child in lost:
        del journal.children[child]
    if journal.compensation is None:  # else the code is over, and its compensation continues
        journal.lost.update(dict.fromkeys([*lost, *_given_up(journal)]))


def _given_up(journal: Journal) -> list[str]:
    """Children that were cancelled after the failure: a task group cancels those of the other branches."""
    ended = [a for a in journal.answers if a.optional and _is_cancelled(a.fact)]
    if ended:
        journal.answers = deque(a for a in journal.answers if a not in ended)
    return [answer.path.removesuffix("!") for answer in ended]


def _is_cancelled(fact: ev.Fact) -> bool:
    return isinstance(fact, ev.ChildEnded) and fact.status == Status.CANCELLED


def _child_started(journal: Journal, event: Event, fact: ev.ChildStarted) -> None:
    path = event.path
    journal.children[path] = fact
    if path in journal.lost:
        del journal.lost[path]
        before = next((a for a in reversed(journal.answers) if a.path == path), None)
        if before is not None and not before.optional:
            journal.answers = deque(replace(a, fact=fact) if a is before else a for a in journal.answers)
            return
        # After the failure the code came here again: its answer comes where it did.
        journal.answers = deque(a for a in journal.answers if a is not before)
    journal.answers.append(RecordedResult(event.seq, path, fact))


def _continued(journal: Journal, fact: ev.Continued) -> None:
    journal.generation = fact.generation
    journal.input, journal.seed = fact.input, fact.seed
    count_from(journal, 0.0, journal.last_at)  # each generation has the whole of its timeout
    journal.undoable.clear()  # going on as new settles what came before
    journal.documents = {document.name: document for document in fact.documents}
    _forget(journal, fact, f"carried/{fact.generation}")
    journal.children = {path: ev.ChildStarted(run=run, workflow="") for path, run in fact.children.items()}


def _forget(journal: Journal, base: ev.Continued | ev.TransitionCompleted, prefix: str) -> None:
    """The log from here on has everything that is needed."""
    journal.steps.clear()
    journal.timers.clear()
    journal.waits.clear()
    journal.opened.clear()
    journal.children.clear()
    journal.lost.clear()
    journal.values.clear()
    journal.taken.clear()
    journal.news.clear()
    journal.saved.clear()
    journal.answers.clear()
    journal.messages = {}
    for i, signal in enumerate(base.carried):
        key = signal.key or f"{prefix}/{i}"
        journal.messages[key] = ReceivedMessage(key, "signal", signal.name, signal.payload, 0)
    journal.keys = dict.fromkeys(base.keys)
    journal.cursors = read_cursors(base.cursors, base.keys, journal.last_at)


def _compensating(journal: Journal, started: ev.CompensationStarted) -> None:
    journal.compensation = started
    _leave_code(journal)


def _undoing(journal: Journal) -> None:
    journal.undoes, journal.failed = journal.failed, None
    _leave_code(journal)


def _leave_code(journal: Journal) -> None:
    """The workflow's code is over: what it asked for is not asked for again."""
    journal.answers.clear()
    journal.timers.clear()
    journal.waits.clear()
    journal.opened.clear()
    journal.lost.clear()


# Machines


def _transition_completed(journal: Journal, fact: ev.TransitionCompleted, at: float) -> None:
    _forget(journal, fact, f"carried/{fact.version}")
    arrive(journal, fact)
    count_from(journal, fact.active or 0.0, at)  # the claim may lie before what was read
    journal.children = {
        path: ev.ChildStarted(run=run, workflow="", trigger=fact.triggers.get(path, ""))
        for path, run in fact.children.items()
    }
