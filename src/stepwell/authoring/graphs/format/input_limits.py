"""Plain: is a body JSON, of a size that is worth reading? Asked before anything else looks at it.

What comes from files and the network is walked without recursion and within bounds, so that whoever reads
it afterwards may take strings, depth and numbers for granted.
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
TEXT_BYTES_MAX = 5 * 1024 * 1024  # of all texts and keys together: the limit of a definition
_INTEGER_MAX = 2**63


def plain_problems(body: Any) -> list[GraphProblem]:
    """Why nobody should read on; nothing: it is plain."""
    return _too_large(body) or _not_json(body) or _too_long(body)


def _too_large(body: Any) -> list[GraphProblem]:
    found = []
    for name, limit in (("nodes", NODES_HARD_MAX), ("edges", EDGES_MAX)):
        part = body.get(name) if isinstance(body, dict) else None
        if isinstance(part, list) and len(part) > limit:
            found.append(
                GraphProblem(
                    code="GRAPH_TOO_LARGE",
                    message=f"the graph has {len(part):,} {name}; no graph has more than {limit:,}",
                    field=name,
                    suggestion="move a part into a workflow of its own",
                )
            )
    return found


def _not_json(body: Any) -> list[GraphProblem]:
    count = 0
    found: list[GraphProblem] = []
    waiting: list[tuple[Any, str, int]] = [(body, "", 0)]
    while waiting:
        value, field, depth = waiting.pop()
        count += 1
        why = ("too many values", f"at most {VALUES_MAX:,}") if count > VALUES_MAX else _strange(value, depth)
        if why:
            message, suggestion = why
            place = field if len(field) <= 200 else field[:200] + "…"
            found.append(
                GraphProblem(code="INVALID_GRAPH", message=message, field=place, suggestion=suggestion)
            )
            if count > VALUES_MAX:
                return found
        elif isinstance(value, dict | list):
            waiting += [(item, f"{field}.{key}".lstrip("."), depth + 1) for key, item in _items(value)]
    return found[::-1]


def _too_long(body: Any) -> list[GraphProblem]:
    """For what is JSON."""
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
            message=f"the graph has {size:,} bytes of text; no graph has more than {TEXT_BYTES_MAX:,}",
            suggestion="keep large data elsewhere and pass a reference",
        )
    ]


def _items(value: dict[str, Any] | list[Any]) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value)


def _strange(value: Any, depth: int) -> tuple[str, str] | None:
    """What is wrong with this value itself, and what to do."""
    kind = type(value)
    if depth > DEPTH_MAX:
        return f"nested more than {DEPTH_MAX} deep", "make it flatter"
    if kind is dict:
        if not all(type(key) is str and is_whole(key) for key in value):
            return "keys must be text", "put the keys in quotes"
    elif kind is str:
        if not is_whole(value):
            return "the text has half of a character (a lone surrogate)", "write it as UTF-8"
    elif kind is int:
        if not -_INTEGER_MAX <= value < _INTEGER_MAX:
            return "the number has more than 64 bits", "write it as text"
    elif kind is float:
        if not math.isfinite(value):
            return "the number is not finite", "write it as text, or leave it out"
    elif value is not None and kind not in (bool, list):
        return f"{kind.__name__} is no JSON", "use text, numbers, true, false, null, lists and objects"
    return None
