"""Questions: is what the code asks for now the same as what was answered at that path before?

Behind a failure the code went another way than it goes after a person, or the next attempt of a
transition, has mended it. There `ask("Give up?")` and `ask("Ship it?")` may have one path.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stepwell.domain import events as ev
from stepwell.engine.run.answers import Question, RecordedResult
from stepwell.engine.run.arguments import same_arguments
from stepwell.engine.run.calls import Call, ChildCall, StepCall, TimerCall, TriggerCall, WaitCall
from stepwell.engine.run.journal import Journal


def is_other(call: Call, answer: RecordedResult, journal: Journal) -> bool:
    """It was another question that this answers, as far as the log can tell."""
    match answer.fact:
        case ev.StepCompleted(digest=digest) | ev.StepFailed(digest=digest):
            # Behind the failure it was `notify("failed")`, now it is `notify("paid")`: that is another step.
            return isinstance(call, StepCall) and not same_arguments(call, digest)
        case ev.ChildStarted(digest=digest):
            new = call.new if isinstance(call, ChildCall) else None
            return new is not None and bool(digest) and digest != new.digest
        case ev.TimerFired() | ev.WaitEnded(outcome="answered"):
            return _differ(call, answer.asked, journal, _question)
        case ev.WaitEnded():
            return _differ(call, answer.asked, journal, _question_in_time)
        case _:
            return False


def _differ(call: Call, asked: Question, journal: Journal, question: Callable[[Question], object]) -> bool:
    """Without a failure it is the same, though a person may have changed its words since."""
    return asked is not None and journal.retries > 0 and question(call) != question(asked)


def _question(asked: Question) -> object:
    match asked:
        case TriggerCall() | ev.WaitOpened(what="trigger"):
            return None  # by its path it belongs to a place: what can be chosen there may change
        case TimerCall() | ev.TimerSet():
            return asked.seconds
        case WaitCall():
            form = msgspec.json.decode(msgspec.json.encode(asked.codec.schema()))
            return asked.what, asked.name, asked.key, asked.title, [*asked.assignees], form
        case ev.WaitOpened():
            form = msgspec.json.decode(asked.form)
            return asked.what, asked.name, asked.key, asked.title, asked.assignees, form
        case _:
            return None


def _question_in_time(asked: Question) -> object:
    """What was not answered in time may be answered in a longer one."""
    limit = asked.timeout if isinstance(asked, WaitCall | ev.WaitOpened) else None
    return _question(asked), limit
