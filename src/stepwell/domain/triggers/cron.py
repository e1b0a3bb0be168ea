"""Cron: the five fields of a schedule: whether they are valid, when they are due, and how they read."""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

from cronsim import CronSim

_WRITTEN_OUT = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PART = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?", re.ASCII)


class _Field(NamedTuple):
    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()

    def number(self, text: str) -> int | None:
        lower = text.lower()
        if lower in self.names:
            return self.first + self.names.index(lower)
        value = int(text) if text.isdigit() and len(text) < 4 else -1
        return value if self.first <= value <= self.last else None


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _DAYS),
)


def cron_fault(text: str) -> str:
    """Why a schedule is invalid or never due; '' if it is fine."""
    if text.lower() in _WRITTEN_OUT:
        return ""
    parts = text.split()
    if len(parts) != len(_FIELDS):
        return f"it has {len(parts)} fields, not 5: minute, hour, day of the month, month, day of the week"
    values: list[set[int]] = []
    for field, part in zip(_FIELDS, parts, strict=True):
        numbers = _values(field, part)
        if numbers is None:
            article = "an" if field.name == "hour" else "a"
            return f"{part[:40]!r} is not {article} {field.name} ({field.first} to {field.last})"
        values.append(numbers)
    _, _, days, months, _ = values
    if parts[4].startswith("*") and min(days) > max(_LONGEST[month - 1] for month in months):
        return "none of its months has that day"
    return ""


def _values(field: _Field, text: str) -> set[int] | None:
    numbers: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        low, high, step = match.groups()
        first = field.first if low is None else field.number(low)
        last = field.last if low is None or (step and high is None) else field.number(high or low)
        if first is None or last is None or first > last or (step is not None and int(step) == 0):
            return None
        numbers.update(range(first, last + 1, int(step or 1)))
    return numbers


def plain(text: str) -> str:
    """Return the five fields of a schedule, also for `@daily` and its like."""
    return _WRITTEN_OUT.get(text.lower(), text)


def next_time(text: str, after: datetime) -> datetime | None:
    """Return the first time after that one, in the same time zone; None if there is none within 50 years.

    If both minute and hour are fixed, the schedule is due once on each of its days: right after the gap if
    the clocks skip that time, and the first time round if they repeat it. Otherwise it follows the clock on
    the wall: never at times that are skipped, twice at times that are repeated.
    """
    times = CronSim(plain(text), after)
    for time in times:
        if time.timestamp() > after.timestamp():
            return time  # else `after` is in a repeated hour, in its first round
    return None


def in_words(text: str) -> str:
    return CronSim(plain(text), datetime(2000, 1, 1)).explain()
