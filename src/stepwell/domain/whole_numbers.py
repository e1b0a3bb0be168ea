"""Whole numbers: check that an option has the right type and is within bounds."""

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
    """Return the number, or raise `wrong` if it is not a whole number or out of bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise wrong(
            f"{name} is {excerpt(value)}", hint=hint or f"give a whole number from {least:,} to {most:,}"
        )
    return value


def checked_priority(value: object, wrong: type[InvalidRequest] = InvalidDefinition) -> int:
    """Return the priority: higher comes first, 0 is the default."""
    return whole_number(value, "priority", -PRIORITY_MAX, PRIORITY_MAX, wrong=wrong)
