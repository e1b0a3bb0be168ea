"""Descent: what depends on a step of a graph run. Made once for a trace, asked for any of its steps."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from stepwell.authoring.graphs.history.trace import Trace, TraceEntry
from stepwell.errors import StepNotFound, excerpt

_PLACE = re.compile(r"(.*?)(?:[\[#](\d+)\]?)?")
_PART = re.compile(r"/|[\[#](\d+)?")  # where a container's path ends in that of a step inside


class Descent:
    """Where the steps of a trace are, looked up instead of searched for: a loop may have thousands."""

    def __init__(self, told: Trace) -> None:
        self._known = told.by_path()
        self._named: defaultdict[str, list[str]] = defaultdict(list)  # by the id of their node
        self._behind: defaultdict[str, list[str]] = defaultdict(list)  # by the step before them
        self._inside: defaultdict[str, list[str]] = defaultdict(list)  # by each container around them
        self._parts: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)  # by iteration or attempt
        for path, entry in self._known.items():
            self._named[entry.node].append(path)
            for before in entry.predecessors:
                self._behind[before].append(path)
            for part in _PART.finditer(path):
                container = path[: part.start()]
                self._inside[container].append(path)
                if part[1] is not None:
                    self._parts[container].append((int(part[1]), path))
        for parts in self._parts.values():
            parts.sort()

    def entry(self, name: str) -> TraceEntry:
        """The step of that path, or of the node with that id. StepNotFound: there is none, or several."""
        if name in self._known:
            return self._known[name]
        named = self._named.get(name, [])
        if len(named) != 1:
            what = f"{len(named)} steps" if named else "no step"
            steps = ", ".join(list(self._known)[:10])
            raise StepNotFound(f"the run has {what} {excerpt(name)}", hint=f"its steps are: {steps}")
        return self._known[named[0]]

    def of(self, step: TraceEntry) -> set[str]:
        """The step and all that depends on it: what followed, the containers around it and behind it.

        Later iterations and attempts count too: a sequential loop begins them because of the ones before,
        a parallel one because a place became free.
        """
        found, waiting = {step.path}, [step.path]
        left: dict[str, int] = {}  # of containers: how many of their parts have not been taken
        while waiting:
            path = waiting.pop()
            owner, index = _scope_of(path)
            new = [*self._behind.get(path, ()), *([owner] if owner in self._known else ())]
            if not _is_inside(step.path, path):  # of a container around the step the rest is kept
                new += self._inside.get(path, ())
            if index is not None:
                new += self._take_later(owner, index, left)
            fresh = set(new) - found
            found |= fresh
            waiting.extend(fresh)
        return found

    def _take_later(self, container: str, index: int, left: dict[str, int]) -> Iterator[str]:
        """What is in later iterations or attempts of it, each step only the first time."""
        parts = self._parts[container]
        end = left.get(container, len(parts))
        while end and parts[end - 1][0] > index:
            end -= 1
            yield parts[end][1]
        left[container] = end


def _scope_of(path: str) -> tuple[str, int | None]:
    """`lines[3]/pay` is in the container `lines`, in its iteration 3; `again#2/x` in attempt 2 of `again`."""
    found = _PLACE.fullmatch(path.rpartition("/")[0])
    assert found is not None
    return found[1], None if found[2] is None else int(found[2])


def _is_inside(path: str, container: str) -> bool:
    return path.startswith((f"{container}/", f"{container}[", f"{container}#"))
