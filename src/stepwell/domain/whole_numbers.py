"""Whole numbers that people give as options: of the right type and within bounds."""

from __future__ import annotations

from stepwell.errors import InvalidDefinition, InvalidRequest, excerpt

PRIORITY_MAX = 1_000_000


def whole_number(
    value: object,
    name: str,
    least: int,
    most: int,
    hint: str = "",
    *,
    wrong: type[InvalidRequest] = InvalidDefinition,
) -> int:
    """The number; `wrong` is raised when it is none, or out of bounds: InvalidInput where a call gives it."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise wrong(
            f"{name} is {excerpt(value)}", hint=hint or f"give a whole number from {least:,} to {most:,}"
        )
    return value


def checked_priority(value: object, wrong: type[InvalidRequest] = InvalidDefinition) -> int:
    """Higher comes first; 0 is usual."""
    return whole_number(value, "priority", -PRIORITY_MAX, PRIORITY_MAX, wrong=wrong)
