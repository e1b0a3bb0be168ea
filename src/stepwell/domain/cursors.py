"""Cursors: how far a run has taken the broadcast events of each name and key.

A cursor is the earliest time from which an event still counts. The events of one name have different
times, in their order, so the time of the last event that was taken says which ones come next. An event
counts once for a run: one that a wait for any key (`""`) took is behind the cursor of its own key too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

Place = tuple[str, str]  # name and key of an event, as a wait asks for them
Cursors = dict[Place, float]  # the one that moved last is the last

START: Place = ("", "")  # where a wait begins of which nothing was taken, if not at the run's start
KEPT = 1000  # cursors that a run takes along into its next generation, or past a checkpoint


class Cursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cursor as a log keeps it."""

    name: str
    key: str = ""
    since: float


def behind(at: float) -> float:
    """The cursor of a run that has taken the event of this time."""
    return math.nextafter(at, math.inf)


def since(cursors: Cursors, name: str, key: str, started_at: float) -> float:
    """The cursor of a wait for this name and key."""
    start = cursors.get(START, started_at)
    if not cursors:
        return start
    return max(start, cursors.get((name, ""), start), cursors.get((name, key), start))


def move(cursors: Cursors, name: str, key: str, to: float) -> None:
    """A cursor never goes back."""
    cursors[name, key] = max(to, cursors.pop((name, key), to))


def shorten(cursors: Cursors) -> list[Place]:
    """Drop the cursors that have not moved for longest, when there are too many; returns which.

    From then on a wait without a cursor begins behind the dropped ones: nothing is taken twice.
    """
    dropped = [place for place in cursors if place != START][:-KEPT]
    if dropped:
        cursors[START] = max(cursors.get(START, 0.0), *(cursors.pop(place) for place in dropped))
    return dropped


def written_cursors(cursors: Cursors) -> list[Cursor]:
    return [Cursor(name=name, key=key, since=at) for (name, key), at in cursors.items()]


def read_cursors(kept: Sequence[Cursor], keys: Sequence[str], at: float) -> Cursors:
    """The cursors that a log begins with at a base of this time.

    Bases of older versions have none. One that knows of events then counts as their cursor, as it did.
    """
    if not kept and any(key.startswith("evt/") for key in keys):
        return {START: at}
    return {(cursor.name, cursor.key): cursor.since for cursor in kept}


def cursor_path(name: str, key: str) -> str:
    """The path of the row that keeps the events behind this cursor; no call has such a path."""
    return f"@{msgspec.json.encode([name, key]).decode()}"
