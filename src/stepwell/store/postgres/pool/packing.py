"""Joined: many texts as one parameter, because the driver looks thrice at each element of an array.

A text that holds a border is refused, also where it goes alone, so that the answer does not depend on who
else is in the batch. Names are checked for control characters where they are made.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.store.postgres.pool.errors import Refused

BETWEEN_ROWS, BETWEEN_COLUMNS = "\x1f", "\x1e"


def packed(texts: Sequence[str], border: str = BETWEEN_ROWS) -> str:
    together = border.join(texts)
    if together.count(border) >= max(1, len(texts)):
        raise _refusal()
    return together


def packable(texts: Sequence[str]) -> Sequence[str]:
    """The same texts, each for a parameter of its own."""
    together = "".join(texts)
    if BETWEEN_ROWS in together or BETWEEN_COLUMNS in together:
        raise _refusal()
    return texts


def _refusal() -> Refused:
    return Refused("a name, key or path holds a control character")
