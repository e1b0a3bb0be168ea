"""Suggestion: "did you mean" for names that are nearly right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

# Comparing is quadratic in the lengths, and what is compared may come from data.
NAME_LENGTH_MAX = 60
NAMES_MAX = 100


def suggestion(wanted: str, known: Iterable[str]) -> str:
    """A sentence, or nothing when nothing is near."""
    if len(wanted) > NAME_LENGTH_MAX:
        return ""
    short = (name for name in islice(known, NAMES_MAX) if len(name) <= NAME_LENGTH_MAX)
    near = difflib.get_close_matches(wanted, sorted(short), n=1)
    return f"did you mean {near[0]}?" if near else ""
