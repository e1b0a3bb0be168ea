"""Unserved: the end of a run whose workflow no worker has. Nothing of its code is executed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepwell.domain.commit import Definition, InboxRow
from stepwell.domain.events import Problem
from stepwell.domain.messages import read_cancel
from stepwell.domain.program import RunOptions
from stepwell.domain.status import Status
from stepwell.engine.run.endings import RunEnding
from stepwell.engine.run.journal import Journal


class Unserved:
    """Stands in the place of the workflow. What the run did stays: it may be retried when a worker has it."""

    sync = False

    def __init__(self, name: str, version: str, kind: str) -> None:
        self.definition = Definition(name=name, version=version, kind=kind)
        self.options = RunOptions(on_failure="hold")

    def run(self, ctx: Any, input: bytes) -> Any:
        raise AssertionError(f"{self.definition.name} is not here")

    def encode_input(self, input: Any) -> bytes:
        raise AssertionError(f"{self.definition.name} is not here")

    def ending(self, journal: Journal, rows: Iterable[InboxRow]) -> RunEnding:
        requests = [row for row in rows if row.kind == "cancel"]
        if requests or journal.cancelled is not None:
            reason = read_cancel(requests[0].payload).reason if requests else ""
            return RunEnding(Status.CANCELLED, reason=reason or journal.cancel_reason)
        what = f"{self.definition.kind} {self.definition.name} version {self.definition.version}"
        problem = Problem(
            code="UNSERVED",
            message=f"the run was due, and no worker had {what}",
            hint="start a worker that has it, with all its node types and steps; then retry the run",
        )
        return RunEnding(Status.TIMED_OUT, problem=problem)
