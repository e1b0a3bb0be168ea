"""Answers: the recorded facts that let workflow code go on, and what it had asked for."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from stepwell.domain import events as ev
from stepwell.engine.run.calls import Call

_ALWAYS = frozenset((ev.StepCompleted, ev.TimerFired, ev.ChildStarted, ev.ChildEnded, ev.CancelRequested))
MAY_ANSWER = _ALWAYS | {ev.StepFailed, ev.WaitEnded}


def is_answer(fact: ev.Fact) -> bool:
    """Does this fact let workflow code go on?"""
    if type(fact) in _ALWAYS:
        return True
    if isinstance(fact, ev.StepFailed):
        return fact.retry_in is None
    return isinstance(fact, ev.WaitEnded) and fact.outcome != "withdrawn"


Question: TypeAlias = ev.TimerSet | ev.WaitOpened | Call | None


class RecordedResult(msgspec.Struct, frozen=True, eq=False):
    """A recorded fact that lets workflow code go on."""

    seq: int
    path: str
    fact: ev.Fact
    optional: bool = False  # recorded after a failure that was retried: may not be asked for again
    asked: Question = None  # what it answers, of timers and waits


def result_path(path: str) -> str:
    """A child's start and its result are two answers at one path."""
    return f"{path}!"
