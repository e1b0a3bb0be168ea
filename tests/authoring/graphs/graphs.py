"""Graphs for tests, written short: `chart([...nodes], "S>A A-error>H H>Z")`."""

from __future__ import annotations

from typing import Any

from stepwell import RunHandle
from stepwell.domain.trace import TraceEntry


def a(id: str, type: str = "task", parent: str = "", **data: Any) -> dict[str, Any]:
    """A node; a task writes its output under its own name in small letters."""
    if type == "task":
        data = {"outputVariable": id.lower(), **data}
    body: dict[str, Any] = {"id": id, "type": type, "position": {"x": 0, "y": 0}, "data": data}
    if parent:
        body["parentId"] = parent
    return body


def chart(nodes: list[dict[str, Any]], edges: str, name: str = "chart", **settings: Any) -> dict[str, Any]:
    made = []
    for index, text in enumerate(edges.split()):
        source, target = text.split(">")
        source, _, handle = source.partition("-")
        made.append({"id": f"e{index}", "source": source, "sourceHandle": handle or "out", "target": target})
    body: dict[str, Any] = {"name": name, "nodes": nodes, "edges": made}
    if settings:
        body["settings"] = settings
    return body


START = a("S", "start")


def task(dur: int = 0, **line: Any) -> list[dict[str, Any]]:
    """What a scripted task does, in one attempt."""
    return [{"dur": dur, **line}]


async def traced(run: RunHandle[Any]) -> dict[str, TraceEntry]:
    """What a graph run did, by the place of each node: `T/Q`."""
    return {entry.path.removeprefix("0/"): entry for entry in await run.trace()}
