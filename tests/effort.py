"""How hard the suite tries: the environment variable STEPWELL_EFFORT.

`quick` is the loop between two edits: no PostgreSQL, no kills, few seeds. `change` is the default and what
a change needs: all three stores, fixed seeds, a third of the kill points. `all` runs before a release:
every kill point, and seeds that STEPWELL_FIRST_SEED makes new each time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

import pytest

T = TypeVar("T")


class Effort(StrEnum):
    QUICK = "quick"
    CHANGE = "change"
    ALL = "all"


EFFORT = Effort(os.environ.get("STEPWELL_EFFORT", Effort.CHANGE))
# Seeds of `all` begin here, so that two runs of it try different ones.
FIRST_SEED = int(os.environ.get("STEPWELL_FIRST_SEED", "0"))
# Which third of the kill points `change` takes; the Makefile counts commits, so it moves with each.
ROTATION = int(os.environ.get("STEPWELL_ROTATION", "0"))
THIRDS = 3

_POSTGRES_FIXTURES = {"postgres_cluster", "postgres_databases", "postgres_url", "postgres"}
# Processes of their own, or already in `make check`.
_LEFT_OUT = (
    "tests/architecture/",
    "tests/bench/",
    "tests/docs/",
    "tests/deploy/",
    "tests/faults/",
    "tests/tools/",
    "tests/typing/",
)


def choose(*, quick: T, change: T, all: T) -> T:
    """The value for the effort that was asked for."""
    return {Effort.QUICK: quick, Effort.CHANGE: change, Effort.ALL: all}[EFFORT]


def seeds(*, quick: int, change: int, all: int) -> range:
    """Fixed seeds, except for `all`: there they begin at STEPWELL_FIRST_SEED."""
    first = FIRST_SEED if EFFORT is Effort.ALL else 0
    return range(first, first + choose(quick=quick, change=change, all=all))


def rotating(points: Sequence[T]) -> list[T]:
    """Every kill point in `all`; otherwise every third, beginning with another one after each commit."""
    if EFFORT is Effort.ALL:
        return list(points)
    return list(points[ROTATION % THIRDS :: THIRDS])


def needs_postgres(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec is not None else ()
    on_postgres = any(isinstance(value, str) and value == "postgres" for value in values)
    return on_postgres or bool(_POSTGRES_FIXTURES & set(getattr(item, "fixturenames", ())))


def is_quick(item: pytest.Item) -> bool:
    """Whether `quick` keeps the test: it needs neither PostgreSQL nor processes of its own nor long."""
    if needs_postgres(item) or item.nodeid.startswith(_LEFT_OUT):
        return False
    return item.get_closest_marker("slow") is None and item.get_closest_marker("alone") is None


class EffortPlugin:
    def pytest_report_header(self) -> str:
        return f"effort: {EFFORT}, first seed {FIRST_SEED}, rotation {ROTATION % THIRDS} of {THIRDS}"

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if EFFORT is not Effort.QUICK:
            return
        slow = [item for item in items if not is_quick(item)]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if is_quick(item)]
