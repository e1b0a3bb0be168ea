"""Cuts: which events of a run's log a new run begins with.

A function's code is replayed over the copy, so a copy ends where nothing was open: what had been asked
for and not answered is asked for again by the new run, and would be there twice. Other kinds of program
cut in their own way; each has its entry in `CUTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain import events as ev
from stepwell.domain.codec import PLAIN
from stepwell.domain.compensation import is_leaving
from stepwell.domain.documents import is_direct
from stepwell.domain.events import Event
from stepwell.domain.status import Status
from stepwell.errors import InvalidInput, NotForkable, StepNotFound, excerpt


class Delivered(NamedTuple):
    """An event for a graph run that one of its waits got out of the run's mailbox."""

    seq: int  # the event of the log behind which the wait ended
    path: str  # of the wait
    received: str  # key of the message
    data: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """What is other than it was; everything is JSON."""

    input: bytes | None = None
    state: bytes | None = None
    outputs: Mapping[str, bytes] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()  # of a graph: paths to be done again
    delivered: Sequence[Delivered] = ()  # of a graph; its mailbox is among the dropped then

    @property
    def names(self) -> list[str]:
        found = [name for name in ("input", "state") if getattr(self, name) is not None]
        return [*found, *sorted(self.outputs)]


class ForkPrefix(NamedTuple):
    """The events that count, as they are to be written; `seq` is the last of them in the old log."""

    events: list[Event]
    seq: int


# What was open


class Open:
    """What a log has begun and not ended, event by event."""

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


def closed_places(events: Sequence[Event]) -> list[int]:
    """The seqs after which nothing was open."""
    found = Open()
    places = []
    for event in events:
        found.take(event)
        if not found.paths:
            places.append(event.seq)
    return places


# Functions


def cut_function(events: Sequence[Event], seq: int, edits: Edits) -> ForkPrefix:
    if edits.state is not None:
        raise InvalidInput(
            "a function has no state that could be edited",
            hint="edit what its steps returned (outputs=), or its input (input=)",
        )
    seq = _before_the_end(events, seq)
    kept = _mended(events[:seq], edits)
    for event in kept:
        if is_leaving(event.fact):
            raise NotForkable(
                f"at event {seq} the run was already ending ({event.kind} at {event.seq})",
                hint=f"fork at {event.seq - 1} or before",
            )
    found = Open()
    for event in kept:
        found.take(event)
    if found.paths:
        what = ", ".join(f"{kind} {path}" for path, kind in list(found.paths.items())[:3])
        places = [place for place in closed_places(kept) if place > 1]
        raise NotForkable(
            f"at event {seq} something was open: {what}",
            hint=f"fork at {places[-1]}, where nothing was"
            if places
            else "rerun it: nothing was settled before",
        )
    return ForkPrefix(kept, seq)


def _mended(events: Sequence[Event], edits: Edits) -> list[Event]:
    """Without what the code did because of a failure that is a result now: only what was open then ended."""
    last = {event.path: event for event in events if event.path in edits.outputs and settles(event.fact)}
    failed = min((event.seq for event in last.values() if failed_answer(event.fact)), default=len(events))
    before = Open()
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


def failed_answer(fact: ev.Fact) -> bool:
    """It lets the code go on, but not with what it asked for."""
    match fact:
        case ev.ChildEnded(status=status):
            return status != Status.COMPLETED
        case ev.WaitEnded(outcome=outcome):
            return outcome != "answered"
        case _:
            return isinstance(fact, ev.StepFailed)


def _before_the_end(events: Sequence[Event], seq: int) -> int:
    if type(seq) is not int or not 1 <= seq <= len(events):
        raise NotForkable(
            f"the log has events 1 to {len(events)}, not {excerpt(seq)}", hint="look at run.checkpoints()"
        )
    while isinstance(events[seq - 1].fact, (*ev.ENDINGS, ev.CompensationCompleted)):
        seq -= 1
    return seq


# Machines


def cut_machine(events: Sequence[Event], seq: int, edits: Edits) -> ForkPrefix:
    """A machine's past is its last checkpoint; beyond it, what the visit's code was answered.

    It does not replay, so inner steps that had completed are kept whatever else was open. With another
    state they would not fit it: then nothing of the visit is kept.
    """
    seq = _before_the_end(events, seq)
    places = [e.seq for e in events[:seq] if isinstance(e.fact, ev.TransitionCompleted)]
    place = places[-1] if places else 1
    _check_outputs(events[:place], edits)
    past = [_arrived(event, edits) if event.seq == place else event for event in events[:place]]
    if edits.state is not None:
        if not places:
            raise NotForkable(
                f"at event {seq} the machine had no checkpoint, so no state",
                hint="rerun it with another input, or fork it at a checkpoint",
            )
        return ForkPrefix(past, place)
    visit = events[place:seq]
    if any(is_leaving(event.fact) for event in visit):
        raise NotForkable(
            f"at event {seq} the run was already ending", hint=f"fork at {place}, its last checkpoint"
        )
    return ForkPrefix([*past, *_answered(visit, edits)], seq)


def _check_outputs(past: Sequence[Event], edits: Edits) -> None:
    """What a completed transition was given is in the state that it left: another answer would be in vain."""
    for index, event in enumerate(past):
        if event.path in edits.outputs and settles(event.fact):
            arrival = next(e for e in past[index:] if isinstance(e.fact, ev.TransitionCompleted))
            raise NotForkable(
                f"{event.path} was answered before event {arrival.seq}, and the state there was made from it",
                hint=f"edit that state (state=), or fork at {arrival.seq - 1}",
            )


def _arrived(event: Event, edits: Edits) -> Event:
    if not isinstance(event.fact, ev.TransitionCompleted):
        return event
    state = event.fact.state if edits.state is None else Raw(edits.state)
    return event._replace(fact=replace(event.fact, state=state, children={}))


_NEWS = (ev.ValueRecorded, ev.Published, ev.Progress, ev.DocumentSaved, ev.Received)


def _answered(visit: Sequence[Event], edits: Edits) -> list[Event]:
    """What the code of a visit may be given again: nothing that was open, or failed and is not edited."""
    mended = {e.path: e for e in visit if e.path in edits.outputs and settles(e.fact)}
    settled = set(mended)
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
    kept = [e for e in visit if e.path in settled or (isinstance(e.fact, _NEWS) and not _own_save(e))]
    tried = (ev.StepFailed, ev.StepStarted, ev.StepScheduled)
    return [e for e in kept if e is mended.get(e.path) or not isinstance(e.fact, tried)]


def _own_save(event: Event) -> bool:
    """What the visit's code saved itself, not a step of it: it runs again, and saves what it will."""
    return isinstance(event.fact, ev.DocumentSaved) and is_direct(event.path)


# Graphs


def cut_graph(events: Sequence[Event], seq: int, edits: Edits) -> ForkPrefix:
    """By causality: every answer is kept but those of the dropped paths, whatever else was open.

    A graph asks for the same places again, so what has no answer is simply asked for anew.
    """
    seq = _before_the_end(events, seq)
    # Behind a cancel there is only what cleaned up; the new run is not cancelled.
    cancelled = (event.seq for event in events[:seq] if isinstance(event.fact, ev.CancelRequested))
    seq = min(seq, next(cancelled, seq + 1) - 1)
    past = _without(edits.dropped, _addressed(_sent_on(events[:seq]), edits.delivered))
    settled = {event.path for event in past if settles(event.fact)}
    begun = {event.path for event in past if isinstance(event.fact, ev.ChildStarted)}
    kept = [
        event
        for event in past[1:]
        if isinstance(event.fact, _NEWS) or (event.path in settled and not isinstance(event.fact, _AGAIN))
    ]
    return ForkPrefix(
        [events[0], *(event for event in kept if event.path in begun or not _is_child(event))], seq
    )


def _sent_on(events: Sequence[Event]) -> list[Event]:
    """Without the failures that a person sent on by a retry: what came in their place is the answer."""
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


def _addressed(events: Sequence[Event], delivered: Sequence[Delivered]) -> list[Event]:
    """What the mailbox gave to a wait as an answer to that wait: so it is kept or dropped with it."""
    last = events[-1].seq if events else 0
    given = {one.received: one for one in delivered if one.seq <= last}
    ended = {one.path for one in given.values()}
    behind: dict[int, list[Delivered]] = {}
    for one in given.values():
        behind.setdefault(one.seq, []).append(one)
    found = []
    for event in events:
        fact = event.fact
        if isinstance(fact, ev.Received) and fact.key in given and not fact.rejected:
            fact = replace(fact, what="event", payload=Raw(PLAIN.encode(given[fact.key].data)))
        if not (isinstance(fact, ev.WaitEnded) and event.path in ended):
            found.append(event._replace(fact=fact))
        for one in behind.get(event.seq, ()):
            ended_now = ev.WaitEnded(outcome="answered", received=one.received)
            found.append(event._replace(path=one.path, attempt=0, fact=ended_now))
    return found


def _without(dropped: frozenset[str], events: Sequence[Event]) -> list[Event]:
    """Whoever is asked again needs another answer: the old one's key would make it a repeat."""
    kept = [event for event in events if event.path not in dropped]
    taken = {event.fact.received for event in kept if isinstance(event.fact, ev.WaitEnded)}
    return [
        event
        for event in kept
        if not isinstance(event.fact, ev.Received) or event.fact.what == "signal" or event.fact.key in taken
    ]


_AGAIN = (ev.NodeFact, ev.StepStarted, ev.StepScheduled)  # told again, or of work that has ended


def _is_child(event: Event) -> bool:
    return isinstance(event.fact, ev.ChildEnded)


def settles(fact: ev.Fact) -> bool:
    """It settles what was asked for at its path."""
    match fact:
        case ev.StepCompleted() | ev.TimerFired() | ev.ChildEnded() | ev.ChildStarted(detached=True):
            return True
        case ev.StepFailed(retry_in=delay):
            return delay is None
        case ev.WaitEnded(outcome=outcome):
            return outcome != "withdrawn"
        case _:
            return False


CutLog = Callable[[Sequence[Event], int, Edits], ForkPrefix]
CUTS: dict[str, CutLog] = {"function": cut_function, "machine": cut_machine, "graph": cut_graph}


# From a step on


def place_before(events: Sequence[Event], step: str) -> int:
    """The seq before the first event of that step: its path, or its name where that is unique."""
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
