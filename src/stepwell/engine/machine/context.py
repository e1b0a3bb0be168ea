"""MachineContext: the verbs of a transition's code as they run on the workflow's loop.

A machine does not replay, so some verbs ask the visit where a function's would ask the replay.
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Raw

from stepwell.domain.documents import DIRECT
from stepwell.domain.new_run import NO_INPUT
from stepwell.domain.program import Program
from stepwell.domain.steps import checked_name
from stepwell.engine.context.context import RunContext, no_trigger
from stepwell.engine.run import documents
from stepwell.engine.run.port import RunPort
from stepwell.engine.run.values import record_value
from stepwell.errors import InvalidDefinition


class Visited(Protocol):
    """What the context asks of the machine's driver."""

    @property
    def came_further(self) -> bool: ...

    def check_trigger(self, name: str) -> None: ...


class MachineContext(RunContext):
    _digests_all = False

    def __init__(self, run: RunPort, program: Program, driver: Visited) -> None:
        super().__init__(run, program)
        self._driver = driver

    def _check_trigger(self, trigger: str, detached: bool) -> None:
        if detached:
            raise no_trigger(trigger)
        self._driver.check_trigger(trigger)

    def _is_started(self, path: str) -> bool:
        # After a failure it may be another child than was asked for before.
        return not self._run.calls.strict and super()._is_started(path)

    def _patched_anew(self, path: str) -> Raw:
        """Only the log keeps the answer the same."""
        return record_value(self._run, path, "patched", not self._driver.came_further)

    def continue_as_new(self, input: Any = NO_INPUT) -> Any:
        raise InvalidDefinition(
            "a transition cannot continue as new",
            hint="a machine forgets its history at every checkpoint: lead it back to its first place",
        )

    def save(self, name: str, value: Any) -> None:
        path = self._loop.scope().name(f"{DIRECT}{checked_name(name)}")
        documents.save_in_visit(self._run, path, name, value)

    async def document(self, name: str, type: Any = Any) -> Any:
        self._loop.scope()
        return await documents.read_at_checkpoint(self._run, name, type)
