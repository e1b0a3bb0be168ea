"""Control flow of the engine, as exceptions that `except Exception` cannot swallow.

Unwind (BaseException)
├─ CodeLeft · OwnershipLost · Continue · TransitionStopped
└─ RunCancelling                  also an asyncio.CancelledError: workflow code may clean up after it
"""

from __future__ import annotations


class Unwind(BaseException):
    """Leaves workflow code without being one of its errors."""


class CodeLeft(Unwind):
    """The run parks or begins anew: its code is dropped, and replayed when something happens."""


class OwnershipLost(Unwind):
    """Another worker owns the run now. Nothing that is done here counts."""


class RunCancelling(Unwind):
    """The run is being cancelled: clean up in `except CancelledError` or `finally`, then let it pass."""


class TransitionStopped(Unwind):
    """A transition failed for good and leads to no other place. `problem` is its record."""

    def __init__(self, problem: object) -> None:
        super().__init__()
        self.problem = problem


class Continue(Unwind):
    """The run continues as a new generation with an empty log."""

    def __init__(self, input: bytes) -> None:
        super().__init__()
        self.input = input
