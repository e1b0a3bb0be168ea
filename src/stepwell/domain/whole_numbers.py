"""Whole numbers that people give as options: of the right type and within bounds."""

from __future__ import annotations

from stepwell.errors import InvalidDefinition

PRIORITY_MAX = 1_000_000


def whole_number(value: object, name: str, least: int, most: int, hint: str = "") -> int:
    """The number; InvalidDefinition when it is none, or out of bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidDefinition(
            f"{name} is {value!r}", hint=hint or f"give a whole number from {least:,} to {most:,}"
        )
    return value


def checked_priority(value: object) -> int:
    """Higher comes first; 0 is usual."""
    return whole_number(value, "priority", -PRIORITY_MAX, PRIORITY_MAX)
