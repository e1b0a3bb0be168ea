"""Runs in a database of an earlier version: written with the columns that the first migrations had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import asyncpg

from stepwell.domain.fork.run_copy import RUN_COLUMNS, RunCopy

_RUNS = RUN_COLUMNS[:25]
_EVENTS = ("run_id", "seq", "kind", "path", "attempt", "at", "payload")
_TICKETS = tuple(
    [
        "path",
        "queue",
        "needs",
        "priority",
        "started",
        "ending",
        "not_before",
        "due_at",
        "head",
        "base",
        "at",
        "wakes",
        "run_id",
        "workspace",
        "lane",
        "losses",
        "lost_lease",
    ]
)


async def write_runs(kind: str, place: str, copies: Sequence[RunCopy]) -> None:
    """`place` is the file or the URL of a database that a store of an earlier version has made."""
    rows: list[tuple[str, Sequence[str], list[Any]]] = []
    for copy in copies:
        run = {name: getattr(copy, name) for name in _RUNS} | {"status": copy.status.value}
        rows.append(("runs", _RUNS, list(run.values())))
        rows += [("events", _EVENTS, [copy.id, *event]) for event in copy.log]
        own = [copy.id, copy.workspace, copy.lane, 0, ""]
        rows += [("tickets", _TICKETS, [*ticket[:12], *own]) for ticket in copy.tickets]
    if kind == "sqlite":
        connection = apsw.Connection(place)
        for table, names, values in rows:
            columns = ", ".join(f'"{name}"' for name in names)
            marks = ", ".join("?" for _ in names)
            plain = [int(value) if isinstance(value, bool) else value for value in values]
            connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", plain)
        connection.close()
        return
    connected = await asyncpg.connect(place)
    for table, names, values in rows:
        marks = ", ".join(f"${i}" for i in range(1, len(names) + 1))
        await connected.execute(
            f"INSERT INTO stepwell.{table} ({', '.join(names)}) VALUES ({marks})", *values
        )
    await connected.close()
