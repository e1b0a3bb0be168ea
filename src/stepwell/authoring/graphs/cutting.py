"""Cutting: what of an old run's log a new run keeps, by causality.

Everything is kept but what depends on what is other than it was: a node that is done again, a node whose
output was edited, the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stepwell.authoring.graphs.nodes.registry import NodeRegistry
from stepwell.authoring.graphs.nodes.types import Role
from stepwell.authoring.graphs.nodes.working import RESULTS, NodeResult
from stepwell.authoring.graphs.trace import Trace, TraceEntry, descendants
from stepwell.domain.codec import PLAIN
from stepwell.errors import InvalidInput

_ROOT = "0/"  # where a graph's nodes are in the log


def done_again(told: Trace, paths: Iterable[str], node: str) -> frozenset[str]:
    """Of the log's paths those of the node and of all that follows from it."""
    return _of_nodes(paths, descendants(told, node))


def edited(
    told: Trace, paths: Iterable[str], registry: NodeRegistry, outputs: Mapping[str, Any]
) -> tuple[frozenset[str], dict[str, bytes]]:
    """What to drop because of the edited outputs, and the outputs as the log has them, by path.

    A node is named by its id or path; its output may be a `NodeResult` with another handle.
    """
    changed: dict[str, bytes] = {}
    again: set[str] = set()
    for name, value in outputs.items():
        entry = _entry(told, name.removeprefix(_ROOT))
        again |= descendants(told, entry.path) - {entry.path}
        changed[entry.path] = _written(entry, registry, value)
    dropped = _of_nodes(paths, again - changed.keys())
    return dropped, {_ROOT + path: data for path, data in changed.items()}


def _of_nodes(paths: Iterable[str], nodes: Iterable[str]) -> frozenset[str]:
    wanted = set(nodes)
    return frozenset(path for path in paths if path.removeprefix(_ROOT).partition("@")[0] in wanted)


def _entry(told: Trace, name: str) -> TraceEntry:
    known = told.by_path()
    if name not in known:
        named = [path for path, entry in known.items() if entry.node == name]
        if len(named) == 1:
            return known[named[0]]
        descendants(told, name)  # raises: none or several
    return known[name]


def _written(entry: TraceEntry, registry: NodeRegistry, value: Any) -> bytes:
    kind = registry.get(entry.type)
    if kind is None or kind.role not in (Role.WORK, Role.CHILD):
        raise InvalidInput(
            f"{entry.path} is a {entry.type}: it has no result in the log that could be edited",
            hint="edit what the nodes before it gave, or rerun from it",
        )
    if entry.type in ("call", "workflow"):
        return PLAIN.encode(value)
    return RESULTS.encode(value if isinstance(value, NodeResult) else NodeResult(value))
