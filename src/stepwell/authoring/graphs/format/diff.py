"""The changes between two versions of a graph, node by node and edge by edge.

Values are compared as saved JSON: `1`, `1.0` and `true` are three values, as they are to expressions,
and a field that is null differs from an absent one (`null` can be pinned).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stepwell.errors import InvalidInput

_encode = msgspec.json.Encoder(order="deterministic").encode


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Compare two graphs: added, removed and changed nodes and edges, and changed settings.

    Moved nodes are listed separately: a position has no effect on a run.
    """
    return {
        "nodes": _changes(_by_id(old, "nodes", _meaning), _by_id(new, "nodes", _meaning)),
        "edges": _changes(_by_id(old, "edges", dict), _by_id(new, "edges", dict)),
        "triggers": _changes(_by_id(old, "triggers", dict), _by_id(new, "triggers", dict)),
        "settings": _fields(_settings(old), _settings(new)),
        "moved": _moved(_by_id(old, "nodes", dict), _by_id(new, "nodes", dict)),
    }


def _moved(old: Mapping[str, dict[str, Any]], new: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return node → [position before, position after]; null if it had none."""
    places = {id: [old[id].get("position"), new[id].get("position")] for id in new if id in old}
    return {id: [before, after] for id, (before, after) in places.items() if before != after}


def _settings(body: Mapping[str, Any]) -> Mapping[str, Any]:
    settings = body.get("settings")
    return settings if isinstance(settings, Mapping) else {}


def _meaning(node: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name != "position"}


def _by_id(body: Any, what: str, meaning: Any) -> dict[str, dict[str, Any]]:
    parts = body.get(what) if isinstance(body, Mapping) else what
    if parts is None:
        return {}
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
        raise InvalidInput(
            f"this is not a graph: it has no list of {what}",
            hint='give graphs as they are saved: {"nodes": [...], "edges": [...]}',
        )
    return {_name(part): meaning(part) for part in parts}


def _name(part: Mapping[str, Any]) -> str:
    """The id of a part; an edge without one is named by its two ends."""
    if "id" in part:
        return str(part["id"])
    return ">".join(str(part.get(end) or "") for end in ("source", "sourceHandle", "target", "targetHandle"))


def _changes(old: Mapping[str, dict[str, Any]], new: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "added": [id for id in new if id not in old],
        "removed": [id for id in old if id not in new],
        "changed": {id: _fields(old[id], new[id]) for id in new if id in old and not _same(old[id], new[id])},
    }


def _same(before: Any, after: Any) -> bool:
    return bool(_encode(before) == _encode(after))


def _fields(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Field → [before, after], null if absent; objects are compared field by field."""
    changes: dict[str, Any] = {}
    for name in [*old, *(name for name in new if name not in old)]:
        before, after = old.get(name), new.get(name)
        if (name in old) == (name in new) and _same(before, after):
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            changes |= _fields(before, after, f"{path}{name}.")
        else:
            changes[f"{path}{name}"] = [before, after]
    return changes
