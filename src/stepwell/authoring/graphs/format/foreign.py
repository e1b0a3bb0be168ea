"""Graphs as other editors draw them, converted to our shape before they are read.

Trigger nodes become `triggers[]`, and their edges leave from the start instead. For a loop drawn with an
edge back to itself, the nodes in between become its body, if no other edge leads in or out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from stepwell.authoring.graphs.problems import GraphProblem

JsonObject = dict[str, Any]

_TRIGGERS = {
    "manual": "manual",
    "webhook": "webhook",
    "schedule": "schedule",
    "scheduled": "schedule",
    "event": "event",
    "source": "source",
}
_INTO_BODY = frozenset({"loop", "loop-start"})


def from_foreign_editor(body: Any, types: Collection[str]) -> tuple[Any, list[GraphProblem]]:
    """The graph in our shape; nodes of our own `types` are left as they are."""
    if not isinstance(body, Mapping) or not _is_drawn(body):
        return body, []
    nodes: list[JsonObject] = [dict(node) for node in body["nodes"]]
    edges: list[JsonObject] = [dict(edge) for edge in body["edges"]]
    graph = dict(body)
    triggers = [node for node in nodes if _trigger_type(node, types)]
    if triggers:
        graph["triggers"] = [*(body.get("triggers") or []), *map(_trigger, triggers)]
        nodes, edges = _from_start(nodes, edges, [str(trigger["id"]) for trigger in triggers])
    problems = _structure_loops(nodes, edges)
    return graph | {"nodes": nodes, "edges": edges}, problems


def _is_drawn(body: Mapping[str, Any]) -> bool:
    """Whether nodes and edges can be walked; other problems of their shape are reported when it is read."""
    nodes, edges = body.get("nodes"), body.get("edges")
    return (
        isinstance(nodes, list)
        and isinstance(edges, list)
        and all(_has(node, "id") for node in nodes)
        and all(_has(edge, "source", "target") for edge in edges)
        and all(isinstance(edge.get("sourceHandle"), str | None) for edge in edges)
    )


def _has(part: Any, *names: str) -> bool:
    return isinstance(part, dict) and all(isinstance(part.get(name), str) for name in names)


# Triggers


def _trigger_type(node: JsonObject, types: Collection[str]) -> str:
    kind = node.get("type")
    return "" if kind in types or not isinstance(kind, str) else _TRIGGERS.get(kind, "")


def _trigger(node: JsonObject) -> JsonObject:
    data = node.get("data")
    return {**(data if isinstance(data, dict) else {}), "id": node["id"], "type": _TRIGGERS[node["type"]]}


def _from_start(
    nodes: list[JsonObject], edges: list[JsonObject], triggers: Collection[str]
) -> tuple[list[JsonObject], list[JsonObject]]:
    nodes = [node for node in nodes if node.get("id") not in triggers]
    start = next((node["id"] for node in nodes if node.get("type") == "start"), None)
    if start is None:
        taken = {node.get("id") for node in nodes}
        start = next(name for name in _names("start") if name not in taken)
        nodes.insert(0, {"id": start, "type": "start", "data": {}})
    left: list[JsonObject] = []
    led_to = {edge.get("target") for edge in edges if edge.get("source") == start}
    for edge in edges:
        target = edge.get("target")
        if edge.get("source") not in triggers:
            left.append(edge)
        elif target != start and target not in led_to:
            led_to.add(target)
            left.append({**edge, "source": start, "sourceHandle": "out"})
    return nodes, left


def _names(name: str) -> Iterable[str]:
    yield name
    number = 2
    while True:
        yield f"{name}{number}"
        number += 1


# Loops


def _structure_loops(nodes: list[JsonObject], edges: list[JsonObject]) -> list[GraphProblem]:
    """Move the nodes between a loop's `loop` handle and the edge back to it into its body; in place."""
    loops = {str(node["id"]): node for node in nodes if node.get("type") == "loop" and "id" in node}
    drawn = [id for id in loops if any(_enters(edge, id) for edge in edges)]
    problems: list[GraphProblem] = []
    for id in sorted(drawn, key=lambda id: len(_region(id, edges))):  # the inner ones first
        region = _region(id, edges)
        why = _unstructured(id, region, nodes, edges)
        if why:
            problems.append(
                GraphProblem(
                    code="LOOP_NOT_STRUCTURED",
                    message=f"the repeating part is not clear: {why}",
                    node=id,
                    suggestion="put the repeating nodes inside the loop (parentId)",
                )
            )
        else:
            for node in nodes:
                if node.get("id") in region:
                    node["parentId"] = id
        back = [edge for edge in edges if edge.get("target") == id and _from(edge, region)]
        edges[:] = [edge for edge in edges if edge not in back and not _enters(edge, id)]
    return problems


def _enters(edge: JsonObject, loop: str) -> bool:
    return edge.get("source") == loop and edge.get("sourceHandle") in _INTO_BODY


def _from(edge: JsonObject, region: Collection[str]) -> bool:
    return edge.get("source") in region


def _region(loop: str, edges: list[JsonObject]) -> set[str]:
    """All nodes that the loop's handle leads to without passing the loop again."""
    return _reached([e["target"] for e in edges if _enters(e, loop) and "target" in e], edges, "source", loop)


def _reached(first: Iterable[str], edges: list[JsonObject], side: str, stop: str) -> set[str]:
    other = "target" if side == "source" else "source"
    next_to: dict[str, list[str]] = {}
    for edge in edges:
        if side in edge and other in edge:
            next_to.setdefault(edge[side], []).append(edge[other])
    ids = {id for id in first if id != stop}
    waiting = list(ids)
    while waiting:
        new = [id for id in next_to.get(waiting.pop(), ()) if id != stop and id not in ids]
        ids.update(new)
        waiting.extend(new)
    return ids


def _unstructured(loop: str, region: set[str], nodes: list[JsonObject], edges: list[JsonObject]) -> str:
    """Why the region is not a body; '' if it is one."""
    back = [edge["source"] for edge in edges if edge.get("target") == loop and _from(edge, region)]
    if not back:
        return "nothing leads back to the loop"
    lost = sorted(region - _reached(back, edges, "target", loop))
    if lost:
        return f"{lost[0]} does not lead back to it"
    for edge in edges:
        if edge.get("target") in region and not _from(edge, region) and not _enters(edge, loop):
            return f"{edge.get('source')} leads into it from outside"
    parents = {node.get("id"): node.get("parentId") or "" for node in nodes}
    strange = sorted(id for id in region if parents.get(id) != parents[loop])
    return f"{strange[0]} is in another body" if strange else ""
