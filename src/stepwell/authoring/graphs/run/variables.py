"""Contexts: what a node sees, and how branches come together again.

A context is never changed once it is handed on: a node that writes makes a new one. So a step sees
the writes of its ancestors over live edges and nothing of its siblings, and nothing is copied that
nobody writes to. Each variable remembers which write it comes from: a branch that writes the value
that was there before has written it all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stepwell.authoring.graphs.templates.json_equality import equal

# The engine's own words in a context: a later branch's wins, and that is no conflict of the author's.
_OURS = frozenset({"error"})


class Variables:
    __slots__ = ("marks", "values")

    def __init__(self, values: dict[str, Any], marks: dict[str, object]) -> None:
        self.values = values
        self.marks = marks  # the write that a variable comes from: a step's number, or a merge of its own

    def written(
        self, mark: int, variable: str | None, output: Any, more: Mapping[str, Any] | None
    ) -> Variables:
        """The context behind a node."""
        if variable is None and not more:
            return self
        values, marks = dict(self.values), dict(self.marks)
        if more:
            for name, value in more.items():
                values[name] = value
                marks[name] = mark
        if variable is not None:
            values[variable] = output
            marks[variable] = mark
        return Variables(values, marks)


class Arrival(NamedTuple):
    """A live in-edge: where it comes from, with the context behind its source."""

    source: str
    context: Variables
    order: int  # of the edge's declaration


class Merged(NamedTuple):
    context: Variables
    conflicts: list[str]  # paths where branches differed


def delta(base: Variables, behind: Variables) -> dict[str, Any]:
    """What a branch wrote since the fork."""
    if behind is base:
        return {}
    marks = base.marks
    return {name: behind.values[name] for name, mark in behind.marks.items() if marks.get(name) != mark}


def merge_all(base: Variables, arrivals: Sequence[Arrival]) -> Merged:
    """The union of what the branches wrote; where they differ the later edge in the definition wins."""
    if len(arrivals) == 1:
        return Merged(arrivals[0].context, [])
    values, marks = dict(base.values), dict(base.marks)
    seen: set[str] = set()
    conflicts: list[str] = []
    for arrival in sorted(arrivals, key=lambda arrival: arrival.order):
        for name, value in delta(base, arrival.context).items():
            mark = arrival.context.marks[name]
            if name not in seen or name in _OURS or marks[name] == mark:
                seen.add(name)
                values[name], marks[name] = value, mark
                continue
            both = _together(values[name], value, name, conflicts)
            if equal(both, value):
                marks[name] = mark
            elif not equal(both, values[name]):
                marks[name] = object()  # nobody wrote this: behind it, either part alone is something else
            values[name] = both
    return Merged(Variables(values, marks), conflicts)


def _together(one: Any, other: Any, path: str, conflicts: list[str]) -> Any:
    if one is other:
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        both = dict(one)
        for name, value in other.items():
            both[name] = _together(one[name], value, f"{path}.{name}", conflicts) if name in one else value
        return both
    if equal(one, other):
        return one
    conflicts.append(path)
    return other


def by_arrival(base: Variables, arrivals: Sequence[Arrival], *, last_wins: bool) -> Variables:
    """last-write and first-write: `arrivals` are in the order of the log."""
    values, marks = dict(base.values), dict(base.marks)
    for arrival in arrivals if last_wins else reversed(arrivals):
        for name, value in delta(base, arrival.context).items():
            values[name] = value
            marks[name] = arrival.context.marks[name]
    return Variables(values, marks)


def branches(base: Variables, arrivals: Sequence[Arrival]) -> list[dict[str, Any]]:
    """What a custom merge's expression sees of the branches, in the order of their edges."""
    return [
        {"source": arrival.source, "delta": delta(base, arrival.context)}
        for arrival in sorted(arrivals, key=lambda arrival: arrival.order)
    ]
