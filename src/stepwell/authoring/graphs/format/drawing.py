"""Drawings of a graph: Mermaid text, and an SVG that needs no script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

from stepwell.authoring.graphs.format.python_builder import layers

_SHAPES = {
    "start": ("([", "])"),
    "end": ("([", "])"),
    "condition": ("{", "}"),
    "switch": ("{", "}"),
    "fork": ("[/", "/]"),
    "merge": ("[\\", "\\]"),
    "approval": ("[[", "]]"),
}
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _PAD = 140, 44, 70, 34, 24
_COLOURS = {
    "completed": "#d8f3dc",
    "running": "#fff3bf",
    "waiting": "#fff3bf",
    "failed": "#ffd6d6",
    "skipped": "#eeeeee",
    "cancelled": "#eeeeee",
}


def mermaid(body: Mapping[str, Any]) -> str:
    """A flowchart; containers are drawn around their bodies."""
    nodes, edges = body.get("nodes", []), body.get("edges", [])
    names = {node["id"]: f"n{index}" for index, node in enumerate(nodes)}
    inside: dict[str, list[Mapping[str, Any]]] = {}
    for node in nodes:
        inside.setdefault(node.get("parentId") or "", []).append(node)
    lines = ["flowchart LR"]

    def draw(parent: str, indent: str) -> None:
        for node in inside.get(parent, []):
            label = _quoted(f"{node['id']}: {node['type']}")
            if node["id"] in inside:
                lines.append(f"{indent}subgraph {names[node['id']]}[{label}]")
                draw(node["id"], indent + "  ")
                lines.append(f"{indent}end")
            else:
                left, right = _SHAPES.get(node["type"], ("[", "]"))
                lines.append(f"{indent}{names[node['id']]}{left}{label}{right}")

    draw("", "  ")
    for edge in edges:
        handle = edge.get("sourceHandle") or "out"
        arrow = "-->" if handle == "out" else f"-->|{_quoted(handle)}|"
        if edge["source"] in names and edge["target"] in names:
            lines.append(f"  {names[edge['source']]} {arrow} {names[edge['target']]}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "#quot;").replace("\n", " ") + '"'


def svg(body: Mapping[str, Any], statuses: Mapping[str, str] | None = None) -> str:
    """A picture. With `statuses` (node id → status) each node is coloured and labelled."""
    nodes = {node["id"]: node for node in body.get("nodes", [])}
    edges = [e for e in body.get("edges", []) if e["source"] in nodes and e["target"] in nodes]
    order = [*((e["source"], e["target"]) for e in edges)]
    order += [(node["parentId"], id) for id, node in nodes.items() if node.get("parentId") in nodes]
    columns = layers(list(nodes), order)
    rows: dict[int, int] = {}
    spot: dict[str, tuple[int, int]] = {}
    for id, column in columns.items():
        row = rows[column] = rows.get(column, -1) + 1
        spot[id] = (_PAD + column * (_WIDTH + _GAP_X), _PAD + row * (_HEIGHT + _GAP_Y))
    width = max((x for x, _ in spot.values()), default=0) + _WIDTH + _PAD
    height = max((y for _, y in spot.values()), default=0) + _HEIGHT + _PAD
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'role="img" font-family="sans-serif" font-size="12">',
        f"<title>{escape(str(body.get('name') or 'graph'))}</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#666"/></marker></defs>',
    ]
    for edge in edges:
        parts.append(_line(spot[edge["source"]], spot[edge["target"]], edge.get("sourceHandle") or "out"))
    for id, node in nodes.items():
        parts.append(_box(spot[id], id, str(node["type"]), (statuses or {}).get(id, "")))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(source: tuple[int, int], target: tuple[int, int], handle: str) -> str:
    x1, y1 = source[0] + _WIDTH, source[1] + _HEIGHT // 2
    x2, y2 = target[0], target[1] + _HEIGHT // 2
    middle = (x1 + x2) // 2
    path = f'<path d="M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}" '
    drawn = path + 'fill="none" stroke="#666" marker-end="url(#tip)"/>'
    if handle == "out":
        return drawn
    return drawn + f'<text x="{x1 + 4}" y="{y1 - 4}" fill="#444">{escape(handle)}</text>'


def _box(at: tuple[int, int], id: str, kind: str, status: str) -> str:
    x, y = at
    colour = _COLOURS.get(status, "#ffffff")
    label = f"{kind} · {status}" if status else kind
    middle = x + _WIDTH // 2
    return (
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{colour}" stroke="#333"/>'
        f'<text x="{middle}" y="{y + 18}" text-anchor="middle" font-weight="bold">{escape(id[:20])}</text>'
        f'<text x="{middle}" y="{y + 34}" text-anchor="middle" fill="#444">{escape(label)}</text>'
    )
