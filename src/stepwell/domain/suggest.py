"""Suggest the name that somebody probably meant: "did you mean 'x'?"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from stepwell.errors import excerpt

_COMPARED_MAX = 32  # characters: comparing is quadratic in them, and both sides may come from data
_LISTED_MAX = 30


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return `did you mean 'x'?` for the name closest to `word`; '' if none is close."""
    beginnings = {name[:_COMPARED_MAX]: name for name in sorted(names, reverse=True)}
    close = difflib.get_close_matches(word[:_COMPARED_MAX], beginnings, n=1)
    return f"did you mean {excerpt(beginnings[close[0]])}?" if close else ""


def did_you_mean_one_of(word: str, names: Iterable[str]) -> str:
    """Return the closest name as `did_you_mean` does; if none is close, list the names."""
    names = sorted(names)
    more = f" and {len(names) - _LISTED_MAX} more" if len(names) > _LISTED_MAX else ""
    listed = f"use one of: {', '.join(names[:_LISTED_MAX])}{more}" if names else ""
    return did_you_mean(word, names) or listed
