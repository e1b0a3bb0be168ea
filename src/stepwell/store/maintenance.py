"""What operators ask of a database: how large it is, and whether it is sound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

FAULTS_MAX = 100  # of one kind


class StoreSize(NamedTuple):
    """How much a database holds; `counts` by the names of things, as people know them."""

    bytes: int
    counts: Mapping[str, int]


class StoreFault(NamedTuple):
    """Something that cannot be so; `run` is '' if it concerns no single run."""

    run: str
    text: str
