"""task: the scripted work node of the cases."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from stepwell.authoring.graphs.errors import NodeError
from stepwell.authoring.graphs.nodes.node_data import NodeData
from stepwell.authoring.graphs.nodes.node_type import ExpressionScope, NodeOutcome, NodeType, Now, Role
from stepwell.authoring.graphs.nodes.registry import NodeRegistry
from stepwell.authoring.graphs.nodes.retry import retry_of
from stepwell.authoring.graphs.nodes.steps import RESULTS, NodeResult, outcome_of
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.domain.program import StepContext
from stepwell.domain.steps import StepSpec
from stepwell.errors import ExpressionError
from stepwell.testing.graphs.cases import Script


class TaskWork:
    def __init__(self, data: NodeData, compiler: NodeCompiler, script: Script | None) -> None:
        self._node = compiler.node
        self._script = script
        self.spec = StepSpec(
            name="task",
            function=self._execute,
            retry=retry_of(data.retry),
            timeout=None if data.timeout_ms is None else data.timeout_ms / 1000,
            is_async=True,
            wants_context=True,
            returns=RESULTS,
        )

    async def _execute(self, step: StepContext, scope: dict[str, Any]) -> NodeResult:
        assert self._script is not None
        self._script.starts[self._node] += 1
        line = self._script.line(self._node, step.path, step.attempt, step.run_id)
        if line.get("dur"):
            await asyncio.sleep(line["dur"] / 1000)
        if line.get("fail"):
            raise NodeError(line["fail"])
        try:
            return NodeResult(self._script.output(line, scope), line.get("handle", "out"))
        except ExpressionError as error:
            raise NodeError(error.code, error.message, hint=error.hint, config=True) from None

    def prepare(self, scope: ExpressionScope, now: Now) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (scope,), {}

    def outcome(self, result: bytes | msgspec.Raw) -> NodeOutcome:
        return outcome_of(result)


def registry(script: Script | None = None) -> NodeRegistry:
    """The built-in nodes and `task`, with the handles that the script names in addition to its own."""
    handles = frozenset({"out", "error", *(script.handles if script is not None else ())})
    task = NodeType(
        name="task",
        data=NodeData,
        role=Role.WORK,
        compile=lambda data, compiler: TaskWork(data, compiler, script),
        handles=lambda data: handles,
    )
    return NodeRegistry([task])
