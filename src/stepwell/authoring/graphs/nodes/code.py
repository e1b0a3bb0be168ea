"""The `javascript` and `python` nodes: code that a sandbox of the worker runs (`handlers/code.py`)."""

from __future__ import annotations

import ast
from typing import Annotated, Any

from pydantic import Field

from stepwell.authoring.graphs.nodes.http import unserved
from stepwell.authoring.graphs.nodes.node_data import NodeData
from stepwell.authoring.graphs.nodes.node_type import ExpressionScope, NodeType, Now, Role
from stepwell.authoring.graphs.nodes.retry import retry_of
from stepwell.authoring.graphs.nodes.steps import RESULTS, outcome_of
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.domain.retry import ONCE
from stepwell.domain.steps import StepSpec

JAVASCRIPT_STEP = "node:javascript"
PYTHON_STEP = "node:python"
CODE_SECONDS = 30.0
_LATE = 5.0  # the step's own timeout: the sandbox ends the code before
_SOURCE_MAX = 65_536


class CodeData(NodeData):
    """Code that is given `ctx` and returns the node's output."""

    code: Annotated[
        str,
        Field(
            min_length=1,
            max_length=_SOURCE_MAX,
            description="The body of a function of `ctx`; what it returns is the output.",
        ),
    ]


class CodeWork:
    """One call of the code."""

    def __init__(self, step: str, data: CodeData, compiler: NodeCompiler) -> None:
        self._code = data.code
        self._seconds = CODE_SECONDS if data.timeout_ms is None else data.timeout_ms / 1000
        if "\0" in data.code:
            compiler.problem("INVALID_DATA", "the code has a NUL character", "code", "remove it")
        if step == PYTHON_STEP:
            _check_python(data.code, compiler)
        self.spec = StepSpec(
            name=step,
            function=unserved,
            retry=retry_of(data.retry, ONCE),  # the same code with the same data fails the same way
            timeout=self._seconds + _LATE,
            queue=data.queue or "",
            is_async=True,
            wants_context=True,
            returns=RESULTS,
            provided=True,
        )
        # The code may use any name of the scope.
        compiler.names["code"] = frozenset({"ctx", "loop"})

    def prepare(self, scope: ExpressionScope, now: Now) -> tuple[tuple[Any, ...], dict[str, Any]]:
        context = dict(scope["ctx"])
        if scope.get("loop") is not None:
            context["loop"] = scope["loop"]
        return ({"code": self._code, "ctx": context, "seconds": self._seconds},), {}

    outcome = staticmethod(outcome_of)


def _check_python(code: str, compiler: NodeCompiler) -> None:
    """Report what cannot be parsed. Nothing is executed; the sandbox's Python knows less than this one."""
    try:
        # A lone `return` is fine in a node: the parser does not mind, only the compiler would.
        ast.parse(code)
    except SyntaxError as error:
        place = f"line {error.lineno}: " if error.lineno else ""
        compiler.problem(
            "CODE_SYNTAX", f"{place}{error.msg}", "code", "fix the code", column=error.offset or 0
        )
    except (ValueError, RecursionError, MemoryError):
        compiler.problem("CODE_SYNTAX", "the code cannot be parsed", "code", "make it simpler")


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
