"""Frame: everything one evaluation knows: the scope, the time, variables of macros, what is left to spend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.authoring.graphs.expressions.fault import BudgetSpent
from stepwell.authoring.graphs.expressions.limits import ExpressionLimits


class Frame:
    """Made anew for every evaluation; closures share nothing else, so they may be cached."""

    __slots__ = ("limits", "locals", "now", "odd", "scope", "steps")

    def __init__(self, scope: Mapping[str, Any], now: float | None, limits: ExpressionLimits) -> None:
        self.scope = scope
        self.now = now
        self.limits = limits
        self.steps = limits.steps
        self.locals: list[Any] = []
        # A number that JSON cannot hold (infinity, NaN) was made: the result has to be looked at.
        self.odd = False

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise BudgetSpent(
                f"this takes more than {self.limits.steps:,} steps",
                hint="work on less data, or do it in a code step",
            )
