"""Fault: what goes wrong inside an evaluation, until it becomes an ExpressionError or is absorbed."""

from __future__ import annotations

from collections.abc import Iterable


class ExpressionFault(Exception):
    """Cheap to raise: `||`, `exists` and their like absorb it. The words are finished only at the end."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        column: int = 0,
        path: str = "",
        wanted: str = "",
        known: Iterable[str] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.column = column
        self.path = path
        # What was looked for and what there is, for "did you mean".
        self.wanted = wanted
        self.known = known


class BudgetSpent(ExpressionFault):
    """The evaluation did too much; nothing absorbs this one, or a loop of absorbed errors would go on."""
