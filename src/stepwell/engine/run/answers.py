"""Answers: the recorded facts that let workflow code continue, and the questions that they answer."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

from stepwell.domain import events as ev

_ALWAYS = frozenset(
    (
        *(ev.StepCompleted, ev.TimerFired, ev.ChildStarted, ev.ChildEnded),
        *(ev.CancelRequested, ev.VariableSet),  # of the run itself: their path is ''
    )
)
MAY_ANSWER = _ALWAYS | {ev.StepFailed, ev.WaitEnded}


def is_answer(fact: ev.Fact) -> bool:
    """Does this fact let workflow code continue?"""
    if type(fact) in _ALWAYS:
        return True
    if isinstance(fact, ev.StepFailed):
        return fact.retry_in is None
    return isinstance(fact, ev.WaitEnded) and fact.outcome != "withdrawn"


class Asking(Protocol):
    """A timer or a wait that this activation has asked for itself."""

    timeout: float | None

    def question(self) -> object: ...


Question: TypeAlias = ev.TimerSet | ev.WaitOpened | Asking | None


def question_of(asked: Question) -> object:
    """What is compared when code asks again after a failure."""
    match asked:
        case None | ev.WaitOpened(what="trigger"):
            return None  # its path says to which place it belongs: the choices there may change
        case ev.TimerSet():
            return asked.seconds
        case ev.WaitOpened():
            form = msgspec.json.decode(asked.form)
            return asked.what, asked.name, asked.key, asked.title, asked.assignees, form
        case _:
            return asked.question()


class RecordedResult(msgspec.Struct, frozen=True, eq=False):
    """A recorded fact that lets workflow code continue."""

    seq: int
    path: str
    fact: ev.Fact
    optional: bool = False  # recorded after a failure that was retried: may not be asked for again
    asked: Question = None  # what it answers, of timers and waits


def result_path(path: str) -> str:
    """A child's start and its result are two answers at one path."""
    return f"{path}!"
