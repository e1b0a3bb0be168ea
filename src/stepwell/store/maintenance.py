"""Maintenance: how large a database is, and whether it is sound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

FAULTS_MAX = 100  # faults of one kind to report


class StoreSize(NamedTuple):
    """The size of a database. `counts` are numbers of rows by the names that people know."""

    bytes: int
    counts: Mapping[str, int]


class StoreFault(NamedTuple):
    """A fault in the database. `run` is '' if it concerns no single run."""

    run: str
    text: str
