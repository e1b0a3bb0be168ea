"""Hashes of a graph's JSON: one of everything that is saved, one of the part that runs depend on.

An editor must notice every change, including a moved node. A version distinguishes runs: the positions
and titles of nodes on the canvas do not count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode


def content_hash(body: Any) -> str:
    """A hash of everything."""
    return hashlib.blake2b(_encode(body), digest_size=16).hexdigest()


def version_hash(body: Mapping[str, Any]) -> str:
    """A hash of a graph in its normal form, without the fields that only the canvas shows."""
    nodes = [_without(node, "position", data=_without(node["data"], "title")) for node in body["nodes"]]
    edges = [_without(edge, "label") for edge in body["edges"]]
    return content_hash(_without(_without(body, "title"), "description", nodes=nodes, edges=edges))


def _without(part: Mapping[str, Any], field: str, **changed: Any) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != field} | changed
