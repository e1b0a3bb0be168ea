"""Frame: the state of one evaluation: its scope, the time, variables of macros, and the remaining budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from stepwell.authoring.graphs.expressions.fault import BudgetSpent
from stepwell.authoring.graphs.expressions.limits import ExpressionLimits


class Frame:
    """New for every evaluation. Closures share nothing else, so they can be cached."""

    __slots__ = ("limits", "locals", "non_finite", "now", "scope", "steps")

    def __init__(self, scope: Mapping[str, Any], now: float | None, limits: ExpressionLimits) -> None:
        self.scope = scope
        self.now = now
        self.limits = limits
        self.steps = limits.steps
        self.locals: list[Any] = []
        # An infinity or NaN was computed: the result must be checked, because JSON cannot hold them.
        self.non_finite = False

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise BudgetSpent(
                f"this takes more than {self.limits.steps:,} steps",
                hint="work on less data, or do it in a code step",
            )


# What an expression is compiled into, part by part.
Closure: TypeAlias = Callable[[Frame], Any]
