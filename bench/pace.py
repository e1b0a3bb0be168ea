"""Pace: how fast this machine is at the moment, beside the one that the bars were set on.

Machines differ, and a shared one changes its speed by half within minutes. So the least that any engine
could do (the floor in bursts, rows that are written one after the other) is timed right before and right
after each work, and the work's figures are also shown as they would be at the pace of the other machine.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import apsw
import asyncpg

from bench import floor
from bench.measure import QUICK, Store, Task

# On the machine that the bars were set on: steps a second of the floor in W1, and rows a second of one
# connection that commits each by itself.
FLOOR_THEN: Mapping[str, float] = MappingProxyType({"sqlite": 41_700.0, "postgres": 46_800.0})
ROWS_THEN: Mapping[str, float] = MappingProxyType({"sqlite": 7_100.0, "postgres": 4_700.0})

LOOKS = 2  # on each side of a work
BURST = replace(QUICK, runs=150)  # 50 at once, as in W1
ROWS = 100
LOG_BYTES = 4 << 20  # from there on SQLite begins its write-ahead log anew


@dataclass(frozen=True, slots=True)
class Pace:
    """1.0: as fast as that machine."""

    many: float  # for work that is done side by side
    in_turn: float  # for work that waits for the disk each time

    @classmethod
    def median(cls, paces: Sequence[Pace]) -> Pace:
        return cls(
            many=statistics.median(pace.many for pace in paces),
            in_turn=statistics.median(pace.in_turn for pace in paces),
        )


def pace_of(store: Store, place: str) -> Pace:
    """At this moment, on an empty database."""
    return asyncio.run(_pace_of(store, place))


async def _pace_of(store: Store, place: str) -> Pace:
    steps, _ = await floor.rate(Task(who="floor", work="W1", store=store, place=place, sizes=BURST))
    rows = _rows_on_sqlite(place) if store == "sqlite" else await _rows_on_postgres(place)
    return Pace(many=steps / FLOOR_THEN[store], in_turn=rows / ROWS_THEN[store])


def _rows_on_sqlite(place: str) -> float:
    connection = apsw.Connection(place)
    try:
        connection.execute("PRAGMA synchronous = full")
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, payload BLOB)")
        # The log has its full size, as where the reference was taken: a growing file is slower to flush.
        connection.execute("INSERT INTO rows VALUES (-1, zeroblob(?))", (LOG_BYTES,))
        began = time.perf_counter()
        for number in range(ROWS):
            connection.execute("INSERT INTO rows VALUES (?, ?)", (number, b'{"i":1}'))
        return ROWS / (time.perf_counter() - began)
    finally:
        connection.close()


async def _rows_on_postgres(place: str) -> float:
    connection = await asyncpg.connect(place)
    try:
        await connection.execute("CREATE TABLE rows (id int PRIMARY KEY, payload bytea)")
        insert = await connection.prepare("INSERT INTO rows VALUES ($1, $2)")
        began = time.perf_counter()
        for number in range(ROWS):
            await insert.fetch(number, b'{"i":1}')
        return ROWS / (time.perf_counter() - began)
    finally:
        await connection.close()
