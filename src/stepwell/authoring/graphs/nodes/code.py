"""The `javascript` and `python` nodes: code that a sandbox of the worker runs (`handlers/code.py`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from stepwell.authoring.graphs.nodes.node_data import NodeData
from stepwell.authoring.graphs.nodes.node_type import ExpressionScope, NodeType, Now, Role
from stepwell.authoring.graphs.nodes.steps import outcome_of, provided_step
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.domain.retry import ONCE
from stepwell.sandbox.code_sandbox import Language

JAVASCRIPT_STEP = "node:javascript"
PYTHON_STEP = "node:python"
CODE_SECONDS = 30.0
SOURCE_MAX = 65_536


class CodeData(NodeData):
    """Code that is given `ctx` and returns the node's output."""

    code: Annotated[
        str,
        Field(
            min_length=1,
            max_length=SOURCE_MAX,
            description="The body of a function of `ctx`; what it returns is the output.",
        ),
    ]


class CodeWork:
    """One call of the code."""

    def __init__(self, step: str, data: CodeData, compiler: NodeCompiler) -> None:
        self._seconds = data.timeout_seconds(CODE_SECONDS)
        if "\0" in data.code:
            compiler.problem("INVALID_DATA", "the code has a NUL character", "code", "remove it")
        self.language: Language = "python" if step == PYTHON_STEP else "javascript"
        self.code = data.code
        # The same code with the same data fails the same way: once. The sandbox ends it; the time for which
        # it waits for a place there, behind other code, does not count.
        spec = provided_step(step, data, retry=ONCE, seconds=self._seconds)
        self.spec = replace(spec, timeout=None)
        # The code may use any name of the scope.
        compiler.names["code"] = frozenset({"ctx"})

    def prepare(self, scope: ExpressionScope, now: Now) -> tuple[tuple[Any, ...], dict[str, Any]]:
        context = dict(scope["ctx"])
        if scope.get("loop") is not None:
            context["loop"] = scope["loop"]
        return ({"code": self.code, "ctx": context, "seconds": self._seconds},), {}

    outcome = staticmethod(outcome_of)


def _javascript(data: CodeData, compiler: NodeCompiler) -> CodeWork:
    return CodeWork(JAVASCRIPT_STEP, data, compiler)


def _python(data: CodeData, compiler: NodeCompiler) -> CodeWork:
    return CodeWork(PYTHON_STEP, data, compiler)


JAVASCRIPT = NodeType(
    name="javascript", data=CodeData, role=Role.WORK, compile=_javascript, text="runs JavaScript in a sandbox"
)
PYTHON = NodeType(
    name="python", data=CodeData, role=Role.WORK, compile=_python, text="runs Python in a sandbox"
)
