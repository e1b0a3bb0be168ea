"""GraphBuilder: graphs written in Python.

g = GraphBuilder("refund")
start = g.start()
look = g.node("call", "look", step="find_order", args={"id": "{{ctx.input.id}}"})
start >> look >> g.end(output={"order": "{{ctx.look}}"})
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stepwell.authoring.graphs.format.definition import SCHEMA_VERSION
from stepwell.errors import InvalidDefinition, excerpt

_COLUMN, _ROW = 220, 110


class NodeHandle:
    """A handle of a node, ready to be connected with `>>`."""

    def __init__(self, graph: GraphBuilder, id: str, handle: str = "out") -> None:
        self._graph = graph
        self.id = id
        self._handle = handle

    def on(self, handle: str) -> NodeHandle:
        """Another handle of the node: `check.on("else") >> other`."""
        return NodeHandle(self._graph, self.id, handle)

    def __getitem__(self, handle: str) -> NodeHandle:
        return self.on(handle)

    def __rshift__(self, other: NodeHandle | list[NodeHandle] | tuple[NodeHandle, ...]) -> Any:
        """Connect; a list starts several branches."""
        targets = other if isinstance(other, list | tuple) else [other]
        for target in targets:
            self._graph.connect(self.id, target.id, self._handle)
        return other

    def __rrshift__(self, others: list[NodeHandle] | tuple[NodeHandle, ...]) -> NodeHandle:
        for other in others:
            other >> self
        return self

    def __repr__(self) -> str:
        return f"<{self.id}.{self._handle}>"


class GraphBuilder:
    def __init__(self, name: str, **settings: Any) -> None:
        self.name = name
        self._settings = settings
        self._nodes: dict[str, dict[str, Any]] = {}
        self._edges: list[dict[str, Any]] = []
        self._triggers: list[dict[str, Any]] = []
        self._inside: list[str] = []

    def node(self, type: str, id: str = "", **data: Any) -> NodeHandle:
        """Any type of node; `data` is written as in JSON (camelCase)."""
        id = id or self._free(type)
        if id in self._nodes:
            raise InvalidDefinition(f"two nodes have the id {excerpt(id)}")
        body: dict[str, Any] = {"id": id, "type": type, "position": {"x": 0, "y": 0}, "data": data}
        if self._inside:
            body["parentId"] = self._inside[-1]
        self._nodes[id] = body
        return NodeHandle(self, id)

    def _free(self, type: str) -> str:
        name = type.replace(":", "_")
        if name not in self._nodes:
            return name
        number = 2
        while f"{name}{number}" in self._nodes:
            number += 1
        return f"{name}{number}"

    def start(self, id: str = "start", **data: Any) -> NodeHandle:
        return self.node("start", id, **data)

    def end(self, id: str = "", **data: Any) -> NodeHandle:
        return self.node("end", id, **data)

    def fork(self, id: str = "", **data: Any) -> NodeHandle:
        return self.node("fork", id, **data)

    def merge(self, id: str = "", **data: Any) -> NodeHandle:
        return self.node("merge", id, **data)

    def condition(self, id: str = "", /, **branches: str) -> NodeHandle:
        """`g.condition("check", big="ctx.total > 100")`; its handles are the names and `else`."""
        listed = [{"id": name, "when": when} for name, when in branches.items()]
        return self.node("condition", id, branches=listed)

    @contextmanager
    def inside(self, type: str, id: str = "", **data: Any) -> Iterator[NodeHandle]:
        """A container and, in the `with` block, its body: `with g.inside("loop", items="..."):`"""
        place = self.node(type, id, **data)
        self._inside.append(place.id)
        try:
            yield place
        finally:
            self._inside.pop()

    def connect(self, source: str, target: str, handle: str = "out") -> None:
        id = f"e{len(self._edges) + 1}"
        self._edges.append({"id": id, "source": source, "sourceHandle": handle, "target": target})

    def trigger(self, type: str, id: str = "", **options: Any) -> None:
        self._triggers.append({"id": id or f"{type}{len(self._triggers) + 1}", "type": type, **options})

    def as_dict(self) -> dict[str, Any]:
        """The graph as JSON, its nodes laid out from left to right."""
        self._lay_out()
        body: dict[str, Any] = {
            "schemaVersion": SCHEMA_VERSION,
            "name": self.name,
            "nodes": list(self._nodes.values()),
            "edges": list(self._edges),
        }
        if self._triggers:
            body["triggers"] = list(self._triggers)
        if self._settings:
            body["settings"] = dict(self._settings)
        return body

    def _lay_out(self) -> None:
        columns = layers(list(self._nodes), [(e["source"], e["target"]) for e in self._edges])
        rows: dict[tuple[str, int], int] = {}
        for id, column in columns.items():
            key = (self._nodes[id].get("parentId", ""), column)
            row = rows[key] = rows.get(key, -1) + 1
            self._nodes[id]["position"] = {"x": column * _COLUMN, "y": row * _ROW}


def layers(ids: list[str], edges: list[tuple[str, str]]) -> dict[str, int]:
    """The column of each node: to the right of all that lead to it. A cycle is cut somewhere."""
    column = dict.fromkeys(ids, 0)
    for _ in range(len(ids)):
        moved = False
        for source, target in edges:
            inside = source in column and target in column
            if inside and column[target] <= column[source] < len(ids) - 1:
                column[target] = column[source] + 1
                moved = True
        if not moved:
            break
    return column
