"""Journal: a run's log, read once and arranged for its replay.

Answers are what releases workflow code: step results, fired timers, ended waits and children, in
log order. The rest tells how far each path got: attempts, open timers, waits and children.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.commit import LogRow, NewRun
from stepwell.domain.events import Event

_ALWAYS = frozenset((ev.StepCompleted, ev.TimerFired, ev.ChildStarted, ev.ChildEnded, ev.CancelRequested))


def is_answer(fact: ev.Fact) -> bool:
    """Does this fact let workflow code go on?"""
    if type(fact) in _ALWAYS:
        return True
    if isinstance(fact, ev.StepFailed):
        return fact.retry_in is None
    return isinstance(fact, ev.WaitEnded) and fact.outcome != "withdrawn"


class Answer(NamedTuple):
    """A recorded fact that lets workflow code go on."""

    seq: int
    path: str
    fact: ev.Fact
    optional: bool = False  # recorded after a failure that was retried: may not be asked for again


@dataclass(slots=True)
class StepRecord:
    """How far a step got before it was answered."""

    attempt: int = 0  # the highest that was recorded
    failures: int = 0  # since the last retry by a person
    retry_at: float | None = None
    scheduled_at: float | None = None  # a remote ticket is open for this attempt
    timeout: float | None = None
    started: bool = False


@dataclass(slots=True)
class Opened:
    """A wait that was registered."""

    fact: ev.WaitOpened
    at: float


@dataclass(slots=True)
class Message:
    """A signal, event or decision that is in the log."""

    key: str
    what: str
    name: str
    payload: Raw


@dataclass(slots=True)
class Journal:
    accepted: ev.Accepted
    accepted_at: float
    generation: int = 0
    input: Raw = field(default_factory=lambda: ev.NULL)
    seed: str = ""
    head: int = 0
    last_at: float = 0.0
    started_at: float = 0.0
    retries: int = 0
    claims: int = 0
    active_seconds: float = 0.0
    cancel_reason: str = ""
    answers: deque[Answer] = field(default_factory=deque)
    steps: dict[str, StepRecord] = field(default_factory=dict)
    timers: dict[str, float] = field(default_factory=dict)
    waits: dict[str, Opened] = field(default_factory=dict)
    children: dict[str, ev.ChildStarted] = field(default_factory=dict)
    lost: dict[str, NewRun | None] = field(default_factory=dict)  # children to be started again
    values: dict[str, Raw] = field(default_factory=dict)
    messages: dict[str, Message] = field(default_factory=dict)  # received, not taken by a wait yet
    taken: dict[str, Message] = field(default_factory=dict)  # by key: what answered a wait
    told: set[str] = field(default_factory=set)  # news that were recorded
    keys: set[str] = field(default_factory=set)
    failed: ev.Failed | None = None
    lease: str = ""
    _claimed_at: float = 0.0

    @property
    def replays(self) -> bool:
        return bool(self.answers)


def read_journal(rows: Sequence[LogRow]) -> Journal:
    """Fold a claimed run's log: its first event, then everything since it last continued as new."""
    first = ev.read(rows[0])
    assert isinstance(first.fact, ev.Accepted)
    journal = Journal(first.fact, first.at, input=first.fact.input, seed=first.fact.seed)
    for row in rows:
        event = ev.read(row)
        absorb(journal, event)
    return journal


def absorb(journal: Journal, event: Event) -> None:
    """Take one event in. Also used for what this owner writes, so that both ways agree."""
    journal.head = event.seq
    journal.last_at = event.at
    fact, path = event.fact, event.path
    match fact:
        case ev.StepCompleted() | ev.TimerFired() | ev.ChildEnded():
            _answered(journal, event)
        case ev.CancelRequested():
            journal.cancel_reason = fact.reason
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
        case ev.TimerSet():
            journal.timers[path] = event.at + fact.seconds
        case ev.WaitOpened():
            journal.waits[path] = Opened(fact, event.at)
        case ev.WaitEnded():
            _wait_ended(journal, event, fact)
        case ev.Received():
            journal.keys.add(fact.key)
            if fact.rejected:
                journal.messages.pop(fact.key, None)
                if fact.what == "decide":
                    journal.keys.discard(fact.key)  # a fitting decision may follow
            else:
                journal.messages[fact.key] = Message(fact.key, fact.what, fact.name, fact.payload)
        case ev.ChildStarted():
            _child_started(journal, event, fact)
        case ev.ValueRecorded():
            journal.values[path] = fact.value
        case ev.Published() | ev.Progress():
            journal.told.add(path)
        case _:
            _absorb_run_fact(journal, event)


def _absorb_run_fact(journal: Journal, event: Event) -> None:
    match event.fact:
        case ev.Claimed(lease=lease):
            _count_active(journal)
            journal.claims += 1
            journal.lease = lease
            journal._claimed_at = event.at
            journal.started_at = journal.started_at or event.at
        case ev.Failed() as failed:
            journal.failed = failed
        case ev.Retried():
            _retried(journal, event.seq)
        case ev.Continued() as continued:
            _continued(journal, continued)
        case _:
            pass


def _count_active(journal: Journal) -> None:
    """Time between a claim and the last event under it is time that the run was not suspended."""
    if journal._claimed_at:
        journal.active_seconds += max(0.0, journal.last_at - journal._claimed_at)
    journal._claimed_at = 0.0


def _answered(journal: Journal, event: Event) -> None:
    path, fact = event.path, event.fact
    journal.steps.pop(path, None)
    journal.timers.pop(path, None)
    if isinstance(fact, ev.ChildEnded):
        journal.children.pop(path, None)
        path = result_path(path)
    journal.answers.append(Answer(event.seq, path, fact))


def result_path(path: str) -> str:
    """A child's start and its result are two answers at one path."""
    return f"{path}!"


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
    journal.waits.pop(event.path, None)
    journal.timers.pop(event.path, None)
    message = journal.messages.pop(fact.received, None)
    if message is not None:
        journal.taken[fact.received] = message
    if fact.outcome != "withdrawn":
        journal.answers.append(Answer(event.seq, event.path, fact))


def _retried(journal: Journal, seq: int) -> None:
    """Forget the failure that ended the run; what was recorded after it may not be asked for again."""
    path = journal.failed.error.path if journal.failed else ""
    journal.failed = None
    journal.retries += 1
    failure = max(
        (a.seq for a in journal.answers if path and a.path in (path, result_path(path))), default=seq
    )
    kept = (a for a in journal.answers if not (path and a.path in (path, result_path(path))))
    journal.answers = deque(a._replace(optional=True) if a.seq > failure else a for a in kept)
    step = journal.steps.get(path)
    if step is not None:
        step.failures, step.retry_at = 0, None
    # The failure closed all that was open: waits open anew, remote steps are sent out again, and
    # children start again when the replay has passed the place where they were started.
    journal.waits.clear()
    for step in journal.steps.values():
        step.scheduled_at = None
    for child, started in list(journal.children.items()):
        if not started.detached:
            del journal.children[child]
            journal.lost[child] = None


def _child_started(journal: Journal, event: Event, fact: ev.ChildStarted) -> None:
    journal.children[event.path] = fact
    if event.path in journal.lost:
        del journal.lost[event.path]
        journal.answers = deque(a._replace(fact=fact) if a.path == event.path else a for a in journal.answers)
    else:
        journal.answers.append(Answer(event.seq, event.path, fact))


def _continued(journal: Journal, fact: ev.Continued) -> None:
    journal.generation = fact.generation
    journal.input, journal.seed = fact.input, fact.seed
    journal.steps.clear()
    journal.timers.clear()
    journal.waits.clear()
    journal.children.clear()
    journal.lost.clear()
    journal.values.clear()
    journal.taken.clear()
    journal.told.clear()
    journal.answers.clear()
    journal.active_seconds = 0.0
    journal.messages = {
        f"carried/{fact.generation}/{i}": Message(
            f"carried/{fact.generation}/{i}", "signal", c.name, c.payload
        )
        for i, c in enumerate(fact.carried)
    }
    journal.keys.update(fact.keys)
