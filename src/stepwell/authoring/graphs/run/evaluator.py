"""Evaluator: the names and the time that a node's expressions see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stepwell.authoring.graphs.run.state import ROOT, NodeRun


class Evaluator:
    def __init__(self, run: Mapping[str, Any], clock: Callable[[str], float]) -> None:
        self.run = run  # what expressions see as `run`
        self._clock = clock  # the time at a path; replay must get the same

    def scope_of(self, node_run: NodeRun) -> dict[str, Any]:
        """A new dict. A node whose expressions use no names gets only what its own code reads."""
        scope: dict[str, Any] = {"ctx": node_run.variables.values}
        if node_run.node.uses_names:
            scope["run"] = self.run
            # The same key as user code gets: helpers.key, StepContext.key.
            key = f"{self.run['id']}/{ROOT}{node_run.path}"
            scope["step"] = {"id": node_run.node.id, "path": node_run.path, "key": key}
        if node_run.scope.loop is not None:
            scope["loop"] = node_run.scope.loop
        return scope

    def now_of(self, node_run: NodeRun, mark: str = "") -> float | None:
        """The time, if an expression of the node asks for it: reading the clock writes to the log."""
        return self._clock(node_run.path + mark) if node_run.node.uses_time else None
