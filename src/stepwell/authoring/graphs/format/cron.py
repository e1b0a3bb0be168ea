"""Cron: the five fields of a schedule, checked when a graph is saved."""

from __future__ import annotations

import re
from typing import NamedTuple

_MACROS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
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
    if text.lower() in _MACROS:
        return ""
    parts = text.split()
    if len(parts) != len(_FIELDS):
        return f"it has {len(parts)} fields, not 5: minute, hour, day of the month, month, day of the week"
    values: list[set[int]] = []
    for field, part in zip(_FIELDS, parts, strict=True):
        numbers = _values(field, part)
        if numbers is None:
            return f"{part[:40]!r} is not a {field.name} ({field.first} to {field.last})"
        values.append(numbers)
    _, _, days, months, _ = values
    if parts[4] == "*" and min(days) > max(_LONGEST[month - 1] for month in months):
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
