"""Draw a machine from its description: Mermaid text for documents, or an SVG picture.

The description is stored with every machine, so a server draws machines whose code it does not have. The SVG
is laid out in rows by distance from the start: enough to read a machine, without a library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias
from xml.sax.saxutils import escape

from stepwell.domain.machine import START
from stepwell.errors import InvalidInput

Description: TypeAlias = Mapping[str, Any]  # as `describe` writes it

_ROW, _COLUMN = 110, 190
_WIDTH, _HEIGHT = 130, 36
_KINDS = {"on_error": "error", "then": "error", "on_timeout": "timeout"}


class Arrow(NamedTuple):
    source: str
    target: str
    label: str
    kind: str  # done | wait | error | timeout


def drawn(machine: Description, format: Any, name: str = "") -> str:
    """Draw in one of FORMATS; raise InvalidInput for any other. `name` is the name of the class."""
    draw = FORMATS.get(format) if isinstance(format, str) else None
    if draw is None:
        raise InvalidInput(
            f"{name or machine['name']}.drawing({format!r}): unknown format",
            hint=f"use {' or '.join(repr(name) for name in FORMATS)}",
        )
    return draw(machine)


def arrows_of(machine: Description) -> list[Arrow]:
    arrows = []
    for transition in machine["transitions"]:
        name = transition["name"]
        for source in transition["sources"]:
            for option, target in _destinations(transition):
                kind = _KINDS.get(option) or ("wait" if transition["wait"] else "done")
                guard = " [when]" if transition["guarded"] else ""
                label = f"{name}: {kind}" if option in _KINDS else name + guard
                arrows.append(Arrow(source, target, label, kind))
    return arrows


def _destinations(transition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "target", transition["target"]
    others = (
        ("on_error", transition["on_error"]),
        ("then", transition["retry"]["then"]),
        ("on_timeout", transition["on_timeout"]),
    )
    yield from ((option, place) for option, place in others if place)


def mermaid(machine: Description) -> str:
    """Return a Mermaid state diagram; ⏸ marks a transition that waits to be triggered."""
    names = {place["name"]: f"p{number}" for number, place in enumerate(machine["places"])}
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{_quoted(place)}" as {name}' for place, name in names.items()]
    lines.append(f"    [*] --> {names[START]}")
    for arrow in arrows_of(machine):
        pause = "⏸ " if arrow.kind == "wait" else ""
        label = f"{pause}{_quoted(arrow.label)}".replace(":", " on", 1)
        lines.append(f"    {names[arrow.source]} --> {names[arrow.target]}: {label}")
    lines += [f"    {names[place['name']]} --> [*]" for place in machine["places"] if place["kind"] == "end"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return text.replace('"', "'")


def svg(machine: Description) -> str:
    """Return a self-contained picture: no scripts, fonts or links."""
    name, spots = str(machine["name"]), _spots(machine)
    width = max(x for x, _ in spots.values()) + _COLUMN
    height = max(y for _, y in spots.values()) + _ROW
    title = escape(name)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="machine {_attribute(name)}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{title}</title>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker></defs>',
    ]
    seen: dict[tuple[str, str], int] = {}
    for arrow in arrows_of(machine):
        nth = seen[arrow.source, arrow.target] = seen.get((arrow.source, arrow.target), -1) + 1
        parts.append(_arrow(arrow, spots[arrow.source], spots[arrow.target], nth))
    parts += [_box(place, spots[place["name"]]) for place in machine["places"]]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _spots(machine: Description) -> dict[str, tuple[int, int]]:
    """Position each place; its row is its distance from the start."""
    rows: dict[str, int] = {START: 0}
    waiting = [START]
    links = arrows_of(machine)
    while waiting:
        place = waiting.pop(0)
        for arrow in links:
            if arrow.source == place and arrow.target not in rows:
                rows[arrow.target] = rows[place] + 1
                waiting.append(arrow.target)
    filled: dict[int, int] = {}
    spots = {}
    for place in machine["places"]:
        row = rows[place["name"]]
        column = filled[row] = filled.get(row, -1) + 1
        spots[place["name"]] = (30 + column * _COLUMN, 30 + row * _ROW)
    return spots


def _box(place: Mapping[str, Any], spot: tuple[int, int]) -> str:
    x, y = spot
    stroke = 3 if place["kind"] == "end" else 1.5
    fill = "#fff3d6" if place["waits"] else "#e8f0fe" if place["kind"] == "start" else "#ffffff"
    return (
        f'<g><rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="18" fill="{fill}" '
        f'stroke="#333" stroke-width="{stroke}"/>'
        f'<text x="{x + _WIDTH // 2}" y="{y + 22}" text-anchor="middle">{escape(place["name"])}</text></g>'
    )


_STYLES = {
    "done": 'stroke="#555"',
    "wait": 'stroke="#555" stroke-dasharray="5 4"',
    "error": 'stroke="#b3261e"',
    "timeout": 'stroke="#b3261e" stroke-dasharray="2 3"',
}


def _arrow(arrow: Arrow, source: tuple[int, int], target: tuple[int, int], nth: int) -> str:
    """A curve between two boxes. Loops are drawn on the right of their box; backward arrows bend left."""
    (x1, y1), (x2, y2) = source, target
    shift = 18 * nth
    middle = _WIDTH // 2
    if source == target:
        right, top = x1 + _WIDTH, y1 + _HEIGHT // 2
        far = right + 40 + shift
        path = f"M{right} {top - 6} C{far} {top - 30} {far} {top + 30} {right} {top + 8}"
        label = (right + 34 + shift, top + 26)
    elif y2 > y1:
        start, stop = (x1 + middle, y1 + _HEIGHT), (x2 + middle, y2 - 2)
        bend = (y2 - y1) // 3
        path = (
            f"M{start[0] + shift} {start[1]} C{start[0] + shift} {start[1] + bend} "
            f"{stop[0] + shift} {stop[1] - bend} {stop[0]} {stop[1]}"
        )
        label = ((start[0] + stop[0]) // 2 + 6 + shift, (start[1] + stop[1]) // 2 + 14 * nth)
    else:
        side = 26 + shift
        path = f"M{x1} {y1 + 18} C{x1 - side} {y1} {x2 - side} {y2 + 36} {x2} {y2 + 18}"
        label = (min(x1, x2) - side // 2 + 4, (y1 + y2) // 2 + 18 + 14 * nth)
    return (
        f'<path d="{path}" fill="none" {_STYLES[arrow.kind]} marker-end="url(#head)"/>'
        f'<text x="{label[0]}" y="{label[1]}" fill="#333">{escape(arrow.label)}</text>'
    )


def _attribute(text: str) -> str:
    return escape(text, {'"': "&quot;"})


FORMATS: dict[str, Callable[[Description], str]] = {"mermaid": mermaid, "svg": svg}
