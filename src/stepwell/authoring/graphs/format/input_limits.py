"""Input limits: whether a body is JSON of a reasonable size. Checked before any other code reads it.

Data from files and the network is walked without recursion and within bounds, so that later code can
rely on its strings, depth and numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from stepwell.authoring.graphs.problems import GraphProblem
from stepwell.domain.text import is_whole

NODES_HARD_MAX = 500
EDGES_MAX = 2_000
DEPTH_MAX = 64
VALUES_MAX = 100_000
TEXT_BYTES_MAX = 5 * 1024 * 1024  # of all strings and keys together: the limit of a definition
_INTEGER_MAX = 2**63


def json_problems(body: Any) -> list[GraphProblem]:
    """Problems that make reading the body pointless; none if it is JSON."""
    return _too_large(body) or _not_json(body) or _too_long(body)


def _too_large(body: Any) -> list[GraphProblem]:
    problems = []
    for name, limit in (("nodes", NODES_HARD_MAX), ("edges", EDGES_MAX)):
        part = body.get(name) if isinstance(body, dict) else None
        if isinstance(part, list) and len(part) > limit:
            problems.append(
                GraphProblem(
                    code="GRAPH_TOO_LARGE",
                    message=f"the graph has {len(part):,} {name}; the limit is {limit:,}",
                    field=name,
                    suggestion="move part of it into a separate workflow",
                )
            )
    return problems


def _not_json(body: Any) -> list[GraphProblem]:
    count = 0
    problems: list[GraphProblem] = []
    waiting: list[tuple[Any, str, int]] = [(body, "", 0)]
    while waiting:
        value, field, depth = waiting.pop()
        count += 1
        why = ("too many values", f"at most {VALUES_MAX:,}") if count > VALUES_MAX else _strange(value, depth)
        if why:
            message, suggestion = why
            place = field if len(field) <= 200 else field[:200] + "…"
            problems.append(
                GraphProblem(code="INVALID_GRAPH", message=message, field=place, suggestion=suggestion)
            )
            if count > VALUES_MAX:
                return problems
        elif isinstance(value, dict | list):
            waiting += [(item, f"{field}.{key}".lstrip("."), depth + 1) for key, item in _items(value)]
    return problems[::-1]


def _too_long(body: Any) -> list[GraphProblem]:
    """Expects valid JSON."""
    size = 0
    waiting = [body]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            size += len(value.encode())
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            size += sum(len(key.encode()) for key in value)
    if size <= TEXT_BYTES_MAX:
        return []
    return [
        GraphProblem(
            code="GRAPH_TOO_LARGE",
            message=f"the graph has {size:,} bytes of text; the limit is {TEXT_BYTES_MAX:,}",
            suggestion="keep large data elsewhere and pass a reference",
        )
    ]


def _items(value: dict[str, Any] | list[Any]) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value)


def _strange(value: Any, depth: int) -> tuple[str, str] | None:
    """The problem of this value itself, and a suggestion."""
    kind = type(value)
    if depth > DEPTH_MAX:
        return f"nested more than {DEPTH_MAX} deep", "flatten it"
    if kind is dict:
        if not all(type(key) is str and is_whole(key) for key in value):
            return "keys must be text", "put the keys in quotes"
    elif kind is str:
        if not is_whole(value):
            return "the text contains half a character (a lone surrogate)", "write it as UTF-8"
    elif kind is int:
        if not -_INTEGER_MAX <= value < _INTEGER_MAX:
            return "the number has more than 64 bits", "write it as text"
    elif kind is float:
        if not math.isfinite(value):
            return "the number is not finite", "write it as text, or leave it out"
    elif value is not None and kind not in (bool, list):
        return f"{kind.__name__} is not JSON", "use text, numbers, true, false, null, lists and objects"
    return None
