"""Conditions of triggers: expressions over an event. The expression language is loaded on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.errors import InvalidInput, excerpt


def holds(condition: str, values: Mapping[str, Any]) -> bool:
    """Return whether a trigger's condition is true for these values."""
    from stepwell.authoring.graphs.expressions import compile_expression

    return compile_expression(condition).truth(values)


def check_condition(condition: str) -> None:
    """Raise BadExpression or InvalidInput if the condition of a trigger is wrong."""
    from stepwell.authoring.graphs.expressions import compile_expression

    strange = sorted(compile_expression(condition).names - {"trigger"})
    if strange:
        raise InvalidInput(
            f"the condition uses {excerpt(strange[0])}",
            hint="a condition sees `trigger` only: trigger.payload.amount > 100",
            field="condition",
        )
