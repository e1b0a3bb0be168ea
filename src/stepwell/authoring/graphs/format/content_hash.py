"""Content: the hashes of a graph's JSON. One is of all that is saved, one of what a run depends on.

An editor must notice every change, also that a node was moved. A version is what runs are told apart by:
where nodes lie and what they are called on the canvas is no part of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode


def content_hash(body: Any) -> str:
    """Of everything."""
    return hashlib.blake2b(_encode(body), digest_size=16).hexdigest()


def version_hash(body: Mapping[str, Any]) -> str:
    """Of a graph in its normal form, without what only the canvas shows."""
    nodes = [_without(node, "position", data=_without(node["data"], "title")) for node in body["nodes"]]
    edges = [_without(edge, "label") for edge in body["edges"]]
    return content_hash({**body, "nodes": nodes, "edges": edges})


def _without(part: Mapping[str, Any], field: str, **changed: Any) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != field} | changed
