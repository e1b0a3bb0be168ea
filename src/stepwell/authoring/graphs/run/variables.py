"""Variables: what a node sees, and how branches come together again.

Variables are never changed once they are passed on: a node that writes makes a new object. So a node
sees the writes of its ancestors over live edges and none of its siblings', and nothing is copied
unless a node writes. Each variable remembers which write it comes from: a branch that writes the same
value again has still written it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stepwell.authoring.graphs.templates.json_equality import equal

# Variables that the engine writes: the later branch wins, and that is not a conflict.
_OURS = frozenset({"error"})


class Variables(msgspec.Struct, eq=False, gc=False):
    values: dict[str, Any]
    marks: dict[str, object]  # the write that produced a variable: the number of a node run, or a merge

    def written(
        self, mark: int, variable: str | None, output: Any, more: Mapping[str, Any] | None
    ) -> Variables:
        """The variables after a node."""
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


class Replaced:
    """Variables after a person set one, which no branch has written. Equal inputs give the same object."""

    def __init__(self, name: str, value: Any) -> None:
        self._value = {name: value}
        self._mark = {name: object()}
        self._done: dict[Variables, Variables] = {}

    def of(self, variables: Variables) -> Variables:
        done = self._done.get(variables)
        if done is None:
            done = Variables(variables.values | self._value, variables.marks | self._mark)
            self._done[variables] = done
        return done


class Arrival(NamedTuple):
    """A live in-edge: its source, and the variables after it."""

    source: str
    variables: Variables
    order: int  # of the edge's declaration


class Merged(NamedTuple):
    variables: Variables
    conflicts: list[str]  # paths at which branches differed


def delta(base: Variables, after: Variables) -> dict[str, Any]:
    """What a branch wrote since the fork."""
    if after is base:
        return {}
    marks = base.marks
    return {name: after.values[name] for name, mark in after.marks.items() if marks.get(name) != mark}


def merge_all(base: Variables, arrivals: Sequence[Arrival]) -> Merged:
    """The union of what the branches wrote. Where they differ, the later edge in the definition wins."""
    if len(arrivals) == 1:
        return Merged(arrivals[0].variables, [])
    values, marks = dict(base.values), dict(base.marks)
    seen: set[str] = set()
    conflicts: list[str] = []
    for arrival in sorted(arrivals, key=lambda arrival: arrival.order):
        for name, value in delta(base, arrival.variables).items():
            mark = arrival.variables.marks[name]
            if name not in seen or name in _OURS or marks[name] == mark:
                seen.add(name)
                values[name], marks[name] = value, mark
                continue
            both = _together(values[name], value, name, conflicts)
            if equal(both, value):
                marks[name] = mark
            elif not equal(both, values[name]):
                marks[name] = (
                    object()
                )  # a new value: neither branch wrote it, so later merges must see a write
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
        for name, value in delta(base, arrival.variables).items():
            values[name] = value
            marks[name] = arrival.variables.marks[name]
    return Variables(values, marks)


def branches(base: Variables, arrivals: Sequence[Arrival]) -> list[dict[str, Any]]:
    """The branches as the expression of a custom merge sees them, in the order of their edges."""
    return [
        {"source": arrival.source, "delta": delta(base, arrival.variables)}
        for arrival in sorted(arrivals, key=lambda arrival: arrival.order)
    ]
