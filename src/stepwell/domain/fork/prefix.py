"""Fork prefix: the events of a run's log that a new run begins with.

A function's code is replayed over the copy, so the copy ends where nothing was open: the new run asks again
for everything unanswered, which would then be there twice. Machines and graphs have rules of their own; each
style has an entry in `PREFIX_RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain import events as ev
from stepwell.domain.codec import PLAIN
from stepwell.domain.compensation import begins_cleanup
from stepwell.domain.documents import Documents, is_direct
from stepwell.domain.events import Event
from stepwell.domain.state import Checkpoint
from stepwell.domain.status import Status
from stepwell.errors import InvalidInput, NotForkable, StepNotFound, excerpt


class Delivered(NamedTuple):
    """An event for a graph run that one of its waits took from the run's mailbox."""

    seq: int  # the event of the log after which the wait ended
    path: str  # of the wait
    received: str  # message key
    data: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """What the new run changes; all values are JSON."""

    input: bytes | None = None
    state: bytes | None = None
    outputs: Mapping[str, bytes] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()  # for a graph: paths to run again
    delivered: Sequence[Delivered] = ()  # for a graph whose mailbox is among the dropped paths

    @property
    def names(self) -> list[str]:
        names = [name for name in ("input", "state") if getattr(self, name) is not None]
        return [*names, *sorted(self.outputs)]


class ForkPrefix(NamedTuple):
    """The events to copy, as they will be written; `seq` is the last of them in the old log."""

    events: list[Event]
    seq: int


# Open calls


class UnsettledCalls:
    """The calls that a log has begun and not ended, event by event."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}

    def take(self, event: Event) -> None:
        match event.fact:
            case ev.StepStarted() | ev.StepScheduled():
                self.paths[event.path] = "step"
            case ev.StepFailed(retry_in=delay) if delay is not None:
                self.paths[event.path] = "step between two attempts"
            case ev.TimerSet():
                self.paths[event.path] = "timer"
            case ev.WaitOpened(what=what):
                self.paths[event.path] = what
            case ev.ChildStarted(detached=False):
                self.paths[event.path] = "child run"
            case ev.StepCompleted() | ev.StepFailed() | ev.TimerFired() | ev.WaitEnded() | ev.ChildEnded():
                self.paths.pop(event.path, None)
            case ev.Continued() | ev.Failed() | ev.TimedOut():
                self.paths.clear()
            case _:
                pass


def fork_points(events: Sequence[Event]) -> list[int]:
    """The seqs after which nothing was open."""
    open = UnsettledCalls()
    points = []
    for event in events:
        open.take(event)
        if not open.paths:
            points.append(event.seq)
    return points


def checkpoints(events: Sequence[Event]) -> list[Checkpoint]:
    """The points of a run's past that one can look at and fork from.

    A function has one after each step; its state there is the step's result. A machine has one after each
    transition, with the machine's state.
    """
    points: list[Checkpoint] = []
    documents, open = Documents(), UnsettledCalls()
    machine = bool(events) and isinstance(events[0].fact, ev.Accepted) and events[0].fact.kind == "machine"
    ending = False
    for event in events:
        documents.take(event)
        open.take(event)
        ending = ending or begins_cleanup(event.fact)
        match event.fact:
            case ev.TransitionCompleted() as fact:
                place, state, transition, version = fact.target, fact.state, fact.transition, fact.version
            case ev.StepCompleted(result=result) if not machine and not event.path.startswith("compensate/"):
                place, state, transition, version = event.path, result, "", len(points) + 1
            case _:
                continue
        checkpoint = Checkpoint(
            version=version,
            place=place,
            state=state,
            documents=tuple(document.id for document in documents.latest.values()),
            transition=transition,
            seq=event.seq,
            at=event.at,
            forkable=machine or not (open.paths or ending),
        )
        points.append(checkpoint)
    return points


# Functions


def function_prefix(events: Sequence[Event], seq: int, edits: Edits) -> ForkPrefix:
    if edits.state is not None:
        raise InvalidInput(
            "a function has no state to edit",
            hint="edit the results of its steps (outputs=) or its input (input=)",
        )
    seq = _without_ending(events, seq)
    kept = _without_failure_handling(events[:seq], edits)
    for event in kept:
        if begins_cleanup(event.fact):
            raise NotForkable(
                f"at event {seq} the run was already ending ({event.kind} at {event.seq})",
                hint=f"fork at {event.seq - 1} or before",
            )
    open = UnsettledCalls()
    for event in kept:
        open.take(event)
    if open.paths:
        what = ", ".join(f"{kind} {path}" for path, kind in list(open.paths.items())[:3])
        points = [point for point in fork_points(kept) if point > 1]
        raise NotForkable(
            f"at event {seq} something was open: {what}",
            hint=f"fork at {points[-1]}, where nothing was open"
            if points
            else "rerun it: nothing was settled before",
        )
    return ForkPrefix(kept, seq)


def _without_failure_handling(events: Sequence[Event], edits: Edits) -> list[Event]:
    """Drop what the code did because of a failure that is now edited into a result.

    After that failure only the ends of calls that were already open are kept.
    """
    last = {event.path: event for event in events if event.path in edits.outputs and settles(event.fact)}
    failed = min((event.seq for event in last.values() if is_failure(event.fact)), default=len(events))
    before = UnsettledCalls()
    for event in events[:failed]:
        before.take(event)
    ended = [event for event in events[failed:] if event.path in before.paths]
    taken = {event.fact.received for event in ended if isinstance(event.fact, ev.WaitEnded)}
    came = [event for event in events[failed:] if isinstance(event.fact, ev.Received)]
    kept = [
        e
        for e in came
        if isinstance(e.fact, ev.Received) and (e.fact.what == "signal" or e.fact.key in taken)
    ]
    return [*events[:failed], *sorted([*ended, *kept], key=lambda event: event.seq)]


def is_failure(fact: ev.Fact) -> bool:
    """Whether this fact answers a call with a failure instead of a result."""
    match fact:
        case ev.ChildEnded(status=status):
            return status != Status.COMPLETED
        case ev.WaitEnded(outcome=outcome):
            return outcome != "answered"
        case _:
            return isinstance(fact, ev.StepFailed)


def _without_ending(events: Sequence[Event], seq: int) -> int:
    if type(seq) is not int or not 1 <= seq <= len(events):
        raise NotForkable(
            f"the log has events 1 to {len(events)}, not {excerpt(seq)}",
            hint="see run.checkpoints(), or `stepwell runs checkpoints RUN`",
        )
    while isinstance(events[seq - 1].fact, (*ev.ENDINGS, ev.CompensationCompleted)):
        seq -= 1
    return seq


# Machines


def machine_prefix(events: Sequence[Event], seq: int, edits: Edits) -> ForkPrefix:
    """Keep the log up to the machine's last checkpoint, and after it the recorded results of the visit.

    A machine does not replay, so inner steps that completed are kept even if something else was open. They
    would not fit an edited state: then nothing of the visit is kept.
    """
    seq = _without_ending(events, seq)
    arrivals = [e.seq for e in events[:seq] if isinstance(e.fact, ev.TransitionCompleted)]
    last = arrivals[-1] if arrivals else 1
    _check_outputs(events[:last], edits)
    past = [_edited_checkpoint(event, edits) if event.seq == last else event for event in events[:last]]
    if edits.state is not None:
        if not arrivals:
            raise NotForkable(
                f"at event {seq} the machine had no checkpoint, so no state",
                hint="rerun it with another input, or fork it at a checkpoint",
            )
        return ForkPrefix(past, last)
    visit = events[last:seq]
    if any(begins_cleanup(event.fact) for event in visit):
        raise NotForkable(
            f"at event {seq} the run was already ending", hint=f"fork at {last}, its last checkpoint"
        )
    return ForkPrefix([*past, *_reusable(visit, edits)], seq)


def _check_outputs(past: Sequence[Event], edits: Edits) -> None:
    """Refuse edits before the checkpoint: its state was computed from the old result."""
    for index, event in enumerate(past):
        if event.path in edits.outputs and settles(event.fact):
            arrival = next(e for e in past[index:] if isinstance(e.fact, ev.TransitionCompleted))
            raise NotForkable(
                f"{event.path} was answered before event {arrival.seq}, and the state there depends on it",
                hint=f"edit that state (state=), or fork at {arrival.seq - 1}",
            )


def _edited_checkpoint(event: Event, edits: Edits) -> Event:
    if not isinstance(event.fact, ev.TransitionCompleted):
        return event
    state = event.fact.state if edits.state is None else Raw(edits.state)
    return event._replace(fact=replace(event.fact, state=state, children={}))


_STANDALONE = (
    *(ev.ValueRecorded, ev.Published, ev.Progress, ev.DocumentSaved, ev.Received),
    ev.VariableSet,  # a person's correction applies to the new run too
)


def _reusable(visit: Sequence[Event], edits: Edits) -> list[Event]:
    """The results that the visit's code may reuse: not what was open, or failed without being edited."""
    edited = {e.path: e for e in visit if e.path in edits.outputs and settles(e.fact)}
    settled = set(edited)
    for event in visit:
        match event.fact:
            case ev.StepCompleted() | ev.TimerFired() | ev.WaitEnded(outcome="answered"):
                settled.add(event.path)
            case ev.ChildEnded(status=status) if status == Status.COMPLETED:
                settled.add(event.path)
            case ev.ChildStarted(detached=True):
                settled.add(event.path)
            case _:
                pass
    kept = [
        e for e in visit if e.path in settled or (isinstance(e.fact, _STANDALONE) and not _is_own_save(e))
    ]
    attempts = (ev.StepFailed, ev.StepStarted, ev.StepScheduled)
    return [e for e in kept if e is edited.get(e.path) or not isinstance(e.fact, attempts)]


def _is_own_save(event: Event) -> bool:
    """Whether the visit's code saved it, not one of its steps: that code runs again and saves again."""
    return isinstance(event.fact, ev.DocumentSaved) and is_direct(event.path)


# Graphs


def graph_prefix(events: Sequence[Event], seq: int, edits: Edits) -> ForkPrefix:
    """Keep every result except those of the dropped paths, even if something else was open.

    A graph asks for the same paths again, so a call without a result is simply made again.
    """
    seq = _without_ending(events, seq)
    # After a cancel there is only cleanup; the new run is not cancelled.
    cancelled = (event.seq for event in events[:seq] if isinstance(event.fact, ev.CancelRequested))
    seq = min(seq, next(cancelled, seq + 1) - 1)
    past = _without_dropped(
        edits.dropped, _as_wait_answers(_without_retried_failures(events[:seq]), edits.delivered)
    )
    settled = {event.path for event in past if settles(event.fact)}
    begun = {event.path for event in past if isinstance(event.fact, ev.ChildStarted)}
    kept = [
        event
        for event in past[1:]
        if isinstance(event.fact, _STANDALONE)
        or (event.path in settled and not isinstance(event.fact, _REPEATED))
    ]
    kept = [event for event in kept if event.path in begun or not _is_child(event)]
    return ForkPrefix([events[0], *(_starting(event, settled) for event in kept)], seq)


def _starting(event: Event, nodes: set[str]) -> Event:
    """Return the event with only these `starts`. The new run records when the other nodes begin."""
    starts = event.fact.starts
    if not starts:
        return event
    return event._replace(fact=replace(event.fact, starts=tuple(p for p in starts if p in nodes)))


def _without_retried_failures(events: Sequence[Event]) -> list[Event]:
    """Drop the failures that a person resumed with a retry: the result after it counts."""
    gone: set[int] = set()
    for retried in (event.seq for event in events if isinstance(event.fact, ev.Retried)):
        before = [event for event in events if event.seq < retried and event.seq not in gone]
        ended = next((e for e in reversed(before) if isinstance(e.fact, ev.Failed | ev.TimedOut)), None)
        if ended is not None:
            assert isinstance(ended.fact, ev.Failed | ev.TimedOut)
            path = ended.fact.error.path
            gone |= {e.seq for e in before if e.path == path and e.seq < ended.seq and settles(e.fact)}
            gone.add(ended.seq)
    return [event for event in events if event.seq not in gone]


def _as_wait_answers(events: Sequence[Event], delivered: Sequence[Delivered]) -> list[Event]:
    """Turn each event that the mailbox gave to a wait into an answer to that wait, to be kept or dropped
    with it."""
    last = events[-1].seq if events else 0
    by_key = {one.received: one for one in delivered if one.seq <= last}
    ended = {one.path for one in by_key.values()}
    after: dict[int, list[Delivered]] = {}
    for one in by_key.values():
        after.setdefault(one.seq, []).append(one)
    rewritten = []
    for event in events:
        fact = event.fact
        if isinstance(fact, ev.Received) and fact.key in by_key and not fact.rejected:
            fact = replace(fact, what="event", payload=Raw(PLAIN.encode(by_key[fact.key].data)))
        if not (isinstance(fact, ev.WaitEnded) and event.path in ended):
            rewritten.append(event._replace(fact=fact))
        for one in after.get(event.seq, ()):
            ended_now = ev.WaitEnded(outcome="answered", received=one.received)
            rewritten.append(event._replace(path=one.path, attempt=0, fact=ended_now))
    return rewritten


def _without_dropped(dropped: frozenset[str], events: Sequence[Event]) -> list[Event]:
    """A wait that runs again needs a new answer: with the old message key it would count as a repeat."""
    kept = [event for event in events if event.path not in dropped]
    taken = {event.fact.received for event in kept if isinstance(event.fact, ev.WaitEnded)}
    return [
        event
        for event in kept
        if not isinstance(event.fact, ev.Received) or event.fact.what == "signal" or event.fact.key in taken
    ]


_REPEATED = (ev.NodeFact, ev.StepStarted, ev.StepScheduled)  # written again, or about work that has ended


def _is_child(event: Event) -> bool:
    return isinstance(event.fact, ev.ChildEnded)


def settles(fact: ev.Fact) -> bool:
    """Whether this fact ends the call at its path."""
    match fact:
        case ev.StepCompleted() | ev.TimerFired() | ev.ChildEnded() | ev.ChildStarted(detached=True):
            return True
        case ev.StepFailed(retry_in=delay):
            return delay is None
        case ev.WaitEnded(outcome=outcome):
            return outcome != "withdrawn"
        case _:
            return False


PrefixRule = Callable[[Sequence[Event], int, Edits], ForkPrefix]
PREFIX_RULES: dict[str, PrefixRule] = {
    "function": function_prefix,
    "machine": machine_prefix,
    "graph": graph_prefix,
}


# From a step on


def seq_before(events: Sequence[Event], step: str) -> int:
    """The seq before the first event of that step, given by its path, or by its name if that is unique."""
    paths = list(dict.fromkeys(e.path for e in events if e.path and not e.path.startswith("compensate/")))
    paths = list(dict.fromkeys(part for path in paths for part in (_visit_of(path), path) if part))
    named = [path for path in paths if step in (path, _name_of(path))]
    if not named:
        raise StepNotFound(f"the run has no step {excerpt(step)}", steps=", ".join(paths[:10]) or "none")
    if len(named) > 1:
        raise StepNotFound(
            f"the run has {len(named)} steps called {excerpt(step)}",
            hint="give the path: " + ", ".join(named[:5]),
        )
    inside = f"{named[0]}/"
    return next(e.seq for e in events if e.path == named[0] or e.path.startswith(inside)) - 1


def _name_of(path: str) -> str:
    """`0/charge#1` is called charge; so are `0~2/charge#3` and, of a machine, `0/charge@4`."""
    return path.rpartition("/")[2].partition("#")[0].partition("@")[0]


def _visit_of(path: str) -> str:
    """`0/approve@3/pay#1` belongs to the machine's visit `0/approve@3`."""
    parts = path.split("/", 2)
    return "/".join(parts[:2]) if len(parts) > 2 and "@" in parts[1] else ""
