"""StyleRules: how a run of one style differs from the others. A machine, for example, does not replay."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from stepwell.domain.commit import InboxRow
from stepwell.domain.program import Program
from stepwell.engine.run.answers import RecordedResult
from stepwell.engine.run.port import Call, RunParts


class CodeThread(Protocol):
    """The thread of a workflow that is a plain function."""

    running: bool  # it is in its own code, not in a ctx call

    def cancel(self) -> None: ...
    def leave(self) -> None: ...


class StyleRules:
    """One activation has one at a time. Each method here is what a program without code of its own needs."""

    by_visits = False  # the log is read visit by visit, and documents count at checkpoints
    replays_code = False  # the user's code runs again: it must ask for what the log has
    in_order = True  # results are released in the order of the log, not looked up by their paths
    may_refuse = False
    in_calls = False  # code outside the workflow loop may only wait for the log
    thread: CodeThread | None = None

    def __init__(self, run: RunParts) -> None:
        self._run = run

    def start(self, program: Program, input: bytes) -> tuple[StyleRules, Coroutine[Any, Any, bytes]]:
        """The rules while the program runs, and the coroutine that leads to its result."""
        raise NotImplementedError

    def refuses(self, call: Call) -> bool:
        """The call is answered at once with an error. Asked only if `may_refuse`."""
        return False

    def note(self, answer: RecordedResult, call: Call) -> None:
        """An answer goes to the code."""

    def keeps(self, row: InboxRow) -> bool:
        """The message stays in the inbox until its question is asked."""
        return False

    def weigh(self) -> None:
        """Look again whether code outside the workflow loop is executing."""

    def rest(self, quiet: bool) -> None:
        """The run only waits from now on, or continues."""

    def stays(self) -> bool:
        """The run cannot be given back, although everything in it waits."""
        return False

    def where(self, path: str) -> str:
        """For people: where a run that ended at this path is."""
        return path

    def leave(self) -> None:
        """The code must not continue, whatever it makes of the errors that its calls raise."""
