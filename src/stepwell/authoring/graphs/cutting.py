"""Cutting: what of an old run's log a new run keeps, by causality.

Everything is kept but what depends on what is other than it was: a node that is done again, a node whose
output was edited, the input.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from stepwell.authoring.graphs.nodes.registry import NodeRegistry
from stepwell.authoring.graphs.nodes.types import Role
from stepwell.authoring.graphs.nodes.working import RESULTS, NodeResult
from stepwell.authoring.graphs.trace import Trace, TraceEntry, descendants
from stepwell.domain import events as ev
from stepwell.domain.codec import PLAIN
from stepwell.domain.cuts import Edits
from stepwell.domain.events import Event
from stepwell.domain.schema import Schema
from stepwell.errors import InvalidInput

_ROOT = "0/"  # where a graph's nodes are in the log


def done_again(told: Trace, log: Sequence[Event], node: str) -> Edits:
    """A node is done again, and all that follows from it."""
    return Edits(dropped=_of_nodes(log, descendants(told, node)), delivered=told.delivered)


def edited(told: Trace, log: Sequence[Event], registry: NodeRegistry, outputs: Mapping[str, Any]) -> Edits:
    """What depends on the edited outputs is done again. They are written as the log has them.

    A node is named by its id or path; its output may be a `NodeResult` with another handle.
    """
    changed: dict[str, bytes] = {}
    again: set[str] = set()
    for name, value in outputs.items():
        entry = _entry(told, name.removeprefix(_ROOT))
        again |= descendants(told, entry.path) - {entry.path}
        changed[entry.path] = _written(told, log, entry, registry, value)
    dropped = _of_nodes(log, again - changed.keys())
    found = {_ROOT + path: data for path, data in changed.items()}
    return Edits(outputs=found, dropped=dropped, delivered=told.delivered)


def _of_nodes(log: Sequence[Event], nodes: Iterable[str]) -> frozenset[str]:
    """The paths of these nodes, and of the mailbox: what it gave is told with the waits that got it."""
    wanted = {*nodes, ""}
    paths = {event.path for event in log if event.path}
    return frozenset(
        path for path in paths if _owner(path) in wanted or _ATTEMPT.sub("", _owner(path)) in wanted
    )


_ATTEMPT = re.compile(r"#\d+$")  # of a retry container's delays, and of calls that are tried again


def _owner(path: str) -> str:
    return path.removeprefix(_ROOT).partition("@")[0]


def _entry(told: Trace, name: str) -> TraceEntry:
    known = told.by_path()
    if name not in known:
        named = [path for path, entry in known.items() if entry.node == name]
        if len(named) == 1:
            return known[named[0]]
        descendants(told, name)  # raises: none or several
    return known[name]


def _written(
    told: Trace, log: Sequence[Event], entry: TraceEntry, registry: NodeRegistry, value: Any
) -> bytes:
    kind = registry.get(entry.type)
    if kind is not None and kind.role is Role.WAIT:
        return _answer(told, log, entry, value)
    if kind is None or kind.role not in (Role.WORK, Role.CHILD):
        raise InvalidInput(
            f"{entry.path} is a {entry.type}: it has no result in the log that could be edited",
            hint="edit what the nodes before it gave, or rerun from it",
        )
    if entry.type in ("call", "workflow"):
        return PLAIN.encode(value)
    return RESULTS.encode(value if isinstance(value, NodeResult) else NodeResult(value))


def _answer(told: Trace, log: Sequence[Event], entry: TraceEntry, value: Any) -> bytes:
    """The event or decision that a wait is to get in place of what it got, or did not get in time."""
    path = _ROOT + entry.path
    opened = next((e.fact for e in log if e.path == path and isinstance(e.fact, ev.WaitOpened)), None)
    if opened is None and not any(one.path == path for one in told.delivered):
        raise InvalidInput(
            f"{entry.path} waits for time: nothing answers it that could be edited",
            hint="edit what the nodes before or behind it gave",
        )
    if isinstance(value, NodeResult):
        raise InvalidInput(
            f"{entry.path} is a {entry.type}: how it was answered says where it goes on",
            hint="give the answer alone, such as 'approved' or the event's data",
        )
    if opened is not None and opened.what == "approval":
        Schema(msgspec.json.decode(opened.form)).check(value, question=path)
    return PLAIN.encode(value)
