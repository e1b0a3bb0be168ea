"""Cursors: how far a run has consumed the broadcast events of each name and key.

A cursor is the earliest time from which an event still counts. Events of one name have distinct, ordered
times, so the time of the last consumed event says which ones come next. An event counts once for a run: if a
wait for any key (`""`) takes it, the cursor of its own key moves past it too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

CursorKey = tuple[str, str]  # name and key of an event, as a wait asks for them
Cursors = dict[CursorKey, float]  # the one that moved last is the last

START: CursorKey = ("", "")  # where a wait without a cursor begins, if not at the run's start
KEPT = 1000  # cursors that a run carries into its next generation, or past a checkpoint


class Cursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cursor as the log stores it."""

    name: str
    key: str = ""
    since: float


def just_after(at: float) -> float:
    """The cursor of a run that has taken the event of this time."""
    return math.nextafter(at, math.inf)


def since(cursors: Cursors, name: str, key: str, started_at: float) -> float:
    """The cursor of a wait for this name and key."""
    start = cursors.get(START, started_at)
    if not cursors:
        return start
    return max(start, cursors.get((name, ""), start), cursors.get((name, key), start))


def move(cursors: Cursors, name: str, key: str, to: float) -> None:
    """Move a cursor forward; it never goes back."""
    cursors[name, key] = max(to, cursors.pop((name, key), to))


def shorten(cursors: Cursors) -> list[CursorKey]:
    """If there are too many cursors, drop those that have not moved for longest; returns them.

    From then on a wait without a cursor begins after the dropped ones: nothing is taken twice.
    """
    dropped = [key for key in cursors if key != START][:-KEPT]
    if dropped:
        cursors[START] = max(cursors.get(START, 0.0), *(cursors.pop(key) for key in dropped))
    return dropped


def written_cursors(cursors: Cursors) -> list[Cursor]:
    return [Cursor(name=name, key=key, since=at) for (name, key), at in cursors.items()]


def read_cursors(kept: Sequence[Cursor], keys: Sequence[str], at: float) -> Cursors:
    """The cursors at a base of the log, written at this time.

    Bases of older versions have none; if such a base mentions events, its own time is their cursor, as it
    was then.
    """
    if not kept and any(key.startswith("evt/") for key in keys):
        return {START: at}
    return {(cursor.name, cursor.key): cursor.since for cursor in kept}


def cursor_path(name: str, key: str) -> str:
    """The path of the row that keeps the events after this cursor; no call has such a path."""
    return f"@{msgspec.json.encode([name, key]).decode()}"
