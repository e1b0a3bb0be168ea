"""Continuing as new: the same run begins its code again, with an empty history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.domain import events as ev
from stepwell.engine.run.journal import absorb
from stepwell.engine.run.waits import Waits
from stepwell.errors import Suspended

if TYPE_CHECKING:
    from stepwell.engine.run.activation import Activation


def begin_generation(activation: Activation, fact: ev.Continued) -> None:
    """continue_as_new is on disk: leave the code and begin it again."""
    activation.steps.stop_all()
    activation.closed = Suspended
    activation.turns.unwind(activation.calls.values(), Suspended)
    activation.closed = None
    absorb(activation.journal, ev.Event(activation.writer.head, activation.last_at, "", 0, fact))
    activation.timers.dues.clear()
    activation.timers.limit_run(activation.journal, activation.timed_out)
    activation.live = False
    activation.open_program()
    activation.waits = Waits(activation)  # signals that were not taken come along in the journal
    activation.start_main()
    activation.advance()
