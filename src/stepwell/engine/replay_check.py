"""Replay check: what only tests can afford to look for, where code is replayed after every commit.

There the code cannot have changed. If it still gives a recorded step other arguments, or does not ask for
what the log has open, it depends on something that differs: a clock, chance, the order of a set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.errors import CodeChanged

if TYPE_CHECKING:
    from stepwell.engine.activation import Activation


def marks_all(activation: Activation) -> bool:
    """Are the arguments of every step to be compared? Transitions may give others when they begin again."""
    return activation.services.replay_always and activation.program.definition.kind == "function"


def not_asked_again(activation: Activation) -> CodeChanged | None:
    """What the log has open and the replayed code does not ask for. After a retry it may go another way."""
    journal = activation.journal
    if not marks_all(activation) or journal.retries:
        return None
    sent = (path for path, step in journal.steps.items() if step.scheduled_at is not None)
    for path in (*journal.waits, *journal.timers, *sent):
        if path not in activation.calls and path not in activation.withdrawn:
            asked = ", ".join(list(activation.calls)[:5]) or "nothing"
            return CodeChanged(
                f"the log has {path} open, but the code now asks for {asked}", recorded=path, asked=asked
            )
    return None
