"""ExpressionFault: an error inside an evaluation, until it becomes an ExpressionError or is absorbed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

# Comparing is quadratic in the lengths, and the names may come from data.
NAME_LENGTH_MAX = 60
NAMES_MAX = 100


def suggestion(wanted: str, names: Iterable[str]) -> str:
    """A "did you mean" question; '' if no name is close."""
    if len(wanted) > NAME_LENGTH_MAX:
        return ""
    short = (name for name in islice(names, NAMES_MAX) if len(name) <= NAME_LENGTH_MAX)
    near = difflib.get_close_matches(wanted, sorted(short), n=1)
    return f"did you mean {near[0]}?" if near else ""


class ExpressionFault(Exception):
    """Cheap to raise, because `||`, `exists` and others absorb it. The message is completed at the end."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        column: int = 0,
        path: str = "",
        wanted: str = "",
        names: Iterable[str] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.column = column
        self.path = path
        # The missing name and the existing ones, for "did you mean".
        self.wanted = wanted
        self.names = names


class BudgetSpent(ExpressionFault):
    """The evaluation exceeded its budget. Never absorbed: a loop of absorbed errors would continue."""
