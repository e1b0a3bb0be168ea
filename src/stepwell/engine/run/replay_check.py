"""Replay check: does the code ask again for what the log has open?

A wait, a timer and a remote step belong to the log's order from the moment they are opened, as a completed
step does: code that puts something new in front of one, or leaves it out, is not the code that opened it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stepwell.domain import events as ev
from stepwell.errors import CodeChanged

if TYPE_CHECKING:
    from stepwell.engine.run.activation import Activation
    from stepwell.engine.run.calls import WaitCall
    from stepwell.engine.run.journal import Message


class Opening(NamedTuple):
    """A wait, a timer or a remote step that the log has open, and where it was opened."""

    seq: int
    fact: ev.WaitOpened | ev.TimerSet | ev.StepScheduled


def marks_all(activation: Activation) -> bool:
    """Are the arguments of every step to be compared? Only tests can afford it, and there the code cannot
    have changed. Transitions may give others when they begin again."""
    return activation.services.replay_always and activation.program.definition.kind == "function"


def unreached(activation: Activation) -> Iterator[str]:
    """The paths that the log has open and that the code has not asked for yet."""
    calls, withdrawn, visits = activation.calls, activation.withdrawn, activation.visits
    for path in activation.journal.opened:
        if path not in calls and path not in withdrawn and not (visits is not None and visits.knows(path)):
            yield path


def left_open(activation: Activation) -> CodeChanged | None:
    """The replay of a function is over, or its code ended: what does the log have open that was not asked?"""
    path = next(unreached(activation), "") if activation.journal.accepted.kind == "function" else ""
    if not path:
        return None
    asked = ", ".join(list(activation.calls)[:5]) or "nothing"
    return CodeChanged(
        f"the log has {path} open, but the code now asks for {asked}", recorded=path, asked=asked
    )


def check_form(activation: Activation, call: WaitCall, message: Message) -> None:
    """An answer does not fit what the code expects. A decision was accepted for the form that the log has:
    if the code has another form now, the decision waits for code that takes it. (A place offers its choices
    anew instead.)
    """
    opening = activation.journal.opened.get(call.path)
    if message.what != "decide" or call.what != "approval" or opening is None:
        return
    assert isinstance(opening.fact, ev.WaitOpened)
    form = msgspec.json.encode(call.codec.schema())
    if msgspec.json.decode(form) != msgspec.json.decode(opening.fact.form):
        raise CodeChanged(
            f"a decision on {call.path} was accepted for another form than the code has now",
            hint="take the old form as well (for example Old | New) and retry the run: the decision is kept",
            recorded=call.path,
        )
