"""ExpressionFault: an error inside an evaluation, until it becomes an ExpressionError or is absorbed."""

from __future__ import annotations

from collections.abc import Iterable


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
