"""Code checks: whether the code of nodes parses, checked when a graph is saved.

The sandbox parses all code of a graph at once (`sandbox/syntax.py`); nothing is executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stepwell.authoring.graphs.nodes.code import SOURCE_MAX, CodeWork
from stepwell.authoring.graphs.problems import GraphProblem
from stepwell.sandbox.code_sandbox import Language
from stepwell.sandbox.syntax import faults_of


def code_problems(behaviours: Mapping[str, Any]) -> tuple[list[GraphProblem], list[GraphProblem]]:
    """Return the problems and warnings of the code of these nodes, by node id."""
    works = {node: each for node, each in behaviours.items() if isinstance(each, CodeWork)}
    faults = faults_of([(each.language, each.code) for each in works.values()]) if works else []
    problems: list[GraphProblem] = []
    warnings: list[GraphProblem] = []
    for node, fault in zip(works, faults, strict=True):
        if fault is None:
            warnings.append(
                GraphProblem(
                    code="CODE_UNCHECKED",
                    message="the code was not parsed: this process has no sandbox",
                    node=node,
                    field="code",
                    suggestion='install it: pip install "stepwell[code]"',
                )
            )
        elif fault.message:
            line, column = fault.place
            problems.append(
                GraphProblem(
                    code="CODE_SYNTAX",
                    message=f"line {line}: {fault.message}" if line else fault.message,
                    node=node,
                    field="code",
                    suggestion="fix the code: it is the body of a function of ctx",
                    column=column,
                )
            )
    return problems, warnings


def codes_in(body: Any) -> Iterator[tuple[Language, str]]:
    """Yield the code of a graph, which may be invalid."""
    nodes = body.get("nodes") if isinstance(body, dict) else None
    for node in nodes if isinstance(nodes, list) else ():
        kind, data = (node.get("type"), node.get("data")) if isinstance(node, dict) else (None, None)
        code = data.get("code") if isinstance(data, dict) else None
        if kind in ("javascript", "python") and isinstance(code, str) and 0 < len(code) <= SOURCE_MAX:
            yield kind, code
