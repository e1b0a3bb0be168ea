"""Packing: many texts as one parameter, because asyncpg visits each array element three times.

A text that contains a separator is refused even when it is sent alone, so that the answer does not depend
on the rest of the batch. Names are checked for control characters where they are created.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.store.postgres.pool.errors import Refused

BETWEEN_ROWS, BETWEEN_COLUMNS = "\x1f", "\x1e"


def packed(texts: Sequence[str], separator: str = BETWEEN_ROWS) -> str:
    text = separator.join(texts)
    if text.count(separator) >= max(1, len(texts)):
        raise _refusal()
    return text


def packable(texts: Sequence[str]) -> Sequence[str]:
    """Return the texts unchanged, each for its own parameter, after the same check."""
    text = "".join(texts)
    if BETWEEN_ROWS in text or BETWEEN_COLUMNS in text:
        raise _refusal()
    return texts


def _refusal() -> Refused:
    return Refused("a name, key or path contains a control character")
