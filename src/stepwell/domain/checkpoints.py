"""Checkpoints: the places of a run's past that one can look at and fork from.

Of a function, after each step; its state there is what the step returned. Of a machine, after each
transition; its state is the machine's.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain import events as ev
from stepwell.domain.compensation import is_leaving
from stepwell.domain.documents import Documents
from stepwell.domain.events import Event
from stepwell.domain.fork.prefix import Open
from stepwell.domain.state import Checkpoint


def checkpoints(events: Sequence[Event]) -> list[Checkpoint]:
    found: list[Checkpoint] = []
    documents, open = Documents(), Open()
    machine = bool(events) and isinstance(events[0].fact, ev.Accepted) and events[0].fact.kind == "machine"
    ending = False
    for event in events:
        documents.take(event)
        open.take(event)
        ending = ending or is_leaving(event.fact)
        match event.fact:
            case ev.TransitionCompleted() as fact:
                place, state, transition, version = fact.target, fact.state, fact.transition, fact.version
            case ev.StepCompleted(result=result) if not machine and not event.path.startswith("compensate/"):
                place, state, transition, version = event.path, result, "", len(found) + 1
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
        found.append(checkpoint)
    return found
