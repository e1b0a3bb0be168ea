"""The requirement ids that this milestone promises, in the order they are printed."""

from __future__ import annotations


def numbered(letter: str, *numbers: int) -> tuple[str, ...]:
    return tuple(f"{letter}{number}" for number in numbers)


IDS: tuple[str, ...] = (
    *numbered("K", *range(1, 30), *range(31, 35), 41),  # kernel
    *numbered("F", *range(1, 13)),  # workflows in code
    *numbered("M", *range(1, 10)),  # state machines
    *numbered("G", *range(1, 22)),  # graphs
    *numbered("N", 1, 5, *range(8, 18), *range(20, 24)),  # their nodes
    "X3",
    *numbered("R", *range(1, 5)),  # reliability
    *numbered("W", *range(1, 12)),  # performance
)
