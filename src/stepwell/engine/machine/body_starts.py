"""Body starts: when an attempt of a transition may begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.domain import events as ev
from stepwell.engine.machine.attempt import TransitionAttempt
from stepwell.engine.run.calls import BodyCall

if TYPE_CHECKING:
    from stepwell.engine.run.activation import Activation

_LEASE_LOOK = 0.1  # seconds


def start_body(activation: Activation, call: BodyCall) -> None:
    """Begin an attempt, once the log has everything that led to it and the lease holds."""
    if activation.losses > 0 and not call.announced and not _is_told(activation, call):
        # A worker was lost in this run: from now on the log says what is begun before it begins.
        call.announced = True
        activation.record(ev.StepStarted(step=call.move.name), call.path, call.attempt)
        call.after = activation.writer.barrier
        activation.commands.append(call)
    elif not activation.services.lease_valid():
        activation.busy += 1
        activation.services.loop.call_later(_LEASE_LOOK, _start_late, activation, call)
    else:
        TransitionAttempt(activation, call).run()


def _is_told(activation: Activation, call: BodyCall) -> bool:
    """The log has this attempt as begun, by an owner before us."""
    record = activation.journal.steps.get(call.path)
    return record is not None and record.started and record.attempt == call.attempt


def _start_late(activation: Activation, call: BodyCall) -> None:
    activation.busy -= 1
    if activation.closed is None and not call.future.done():
        start_body(activation, call)
