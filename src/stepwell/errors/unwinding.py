"""Control flow of the engine; `except Exception` cannot swallow it."""

from __future__ import annotations


class Unwind(BaseException):
    """Leaves workflow code without being an error of it."""


class Suspended(Unwind):
    """The run waits; its code is left and will be replayed when something happens."""


class LeaseLost(Unwind):
    """Another worker owns the run now; nothing done here counts any more."""


class RunCancelling(Unwind):
    """Somebody asked to cancel the run: clean up in `except CancelledError` or `finally` and let it pass."""


class TransitionStopped(Unwind):
    """A machine's transition failed for good and has nowhere else to go; `problem` is its record."""

    def __init__(self, problem: object) -> None:
        super().__init__()
        self.problem = problem


class Continue(Unwind):
    """The run goes on as a new generation with a fresh log."""

    def __init__(self, input: bytes) -> None:
        super().__init__()
        self.input = input
