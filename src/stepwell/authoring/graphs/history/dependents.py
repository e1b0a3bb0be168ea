"""Dependents: the nodes that depend on a node of a graph run. Built once for a trace."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from stepwell.authoring.graphs.history.trace import GraphTrace, NodeEntry
from stepwell.errors import StepNotFound, excerpt

_PLACE = re.compile(r"(.*?)(?:[\[#](\d+)\]?)?")
_PART = re.compile(r"/|[\[#](\d+)?")  # the end of a container's path in the path of a node inside


class Dependents:
    """Indexes over the entries of a trace: a loop may have thousands, too many to search each time."""

    def __init__(self, trace: GraphTrace) -> None:
        self._entries = trace.by_path()
        self._named: defaultdict[str, list[str]] = defaultdict(list)  # by the id of their node
        self._after: defaultdict[str, list[str]] = defaultdict(list)  # by the node before them
        self._inside: defaultdict[str, list[str]] = defaultdict(list)  # by each container around them
        self._parts: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)  # by iteration or attempt
        for path, entry in self._entries.items():
            self._named[entry.node].append(path)
            for before in entry.predecessors:
                self._after[before].append(path)
            for part in _PART.finditer(path):
                container = path[: part.start()]
                self._inside[container].append(path)
                if part[1] is not None:
                    self._parts[container].append((int(part[1]), path))
        for parts in self._parts.values():
            parts.sort()

    def entry(self, name: str) -> NodeEntry:
        """Return the entry at a path, or of a node id. Raises StepNotFound if there is not exactly one."""
        if name in self._entries:
            return self._entries[name]
        named = self._named.get(name, [])
        if len(named) != 1:
            count = f"{len(named)} steps" if named else "no step"
            steps = ", ".join(list(self._entries)[:10])
            raise StepNotFound(f"the run has {count} {excerpt(name)}", hint=f"its steps are: {steps}")
        return self._entries[named[0]]

    def of(self, entry: NodeEntry) -> set[str]:
        """The node and everything that depends on it: its successors, the containers around it and theirs.

        Later iterations and attempts count too: a sequential loop begins them because of the ones before,
        a parallel one because a slot became free.
        """
        paths, waiting = {entry.path}, [entry.path]
        left: dict[str, int] = {}  # by container: how many of its parts have not been taken
        while waiting:
            path = waiting.pop()
            owner, index = _scope_of(path)
            new = [*self._after.get(path, ()), *([owner] if owner in self._entries else ())]
            if not _is_inside(entry.path, path):  # the rest of a container around the node is kept
                new += self._inside.get(path, ())
            if index is not None:
                new += self._take_later(owner, index, left)
            fresh = set(new) - paths
            paths |= fresh
            waiting.extend(fresh)
        return paths

    def _take_later(self, container: str, index: int, left: dict[str, int]) -> Iterator[str]:
        """The nodes in later iterations or attempts of a container, each only the first time."""
        parts = self._parts[container]
        end = left.get(container, len(parts))
        while end and parts[end - 1][0] > index:
            end -= 1
            yield parts[end][1]
        left[container] = end


def _scope_of(path: str) -> tuple[str, int | None]:
    """`lines[3]/pay` is in the container `lines`, in its iteration 3; `again#2/x` in attempt 2 of `again`."""
    match = _PLACE.fullmatch(path.rpartition("/")[0])
    assert match is not None
    return match[1], None if match[2] is None else int(match[2])


def _is_inside(path: str, container: str) -> bool:
    return path.startswith((f"{container}/", f"{container}[", f"{container}#"))
