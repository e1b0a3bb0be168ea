"""Logic: `&&`, `||`, `!` and `?:`. Only booleans count; a fault that cannot change the result is absorbed.

As in CEL, `x || y` is true if either side is, even if the other one is a fault, and `x && y` is false
if either side is. Otherwise a fault of one side is the fault of the whole.
"""

from __future__ import annotations

from typing import Any

from stepwell.authoring.graphs.expressions.fault import BudgetSpent, ExpressionFault
from stepwell.authoring.graphs.expressions.frame import Closure, Frame
from stepwell.authoring.graphs.expressions.values import type_name


def not_boolean(place: str, value: Any, column: int) -> ExpressionFault:
    return ExpressionFault(
        f"{place} needs a bool, this is {type_name(value)}",
        hint="compare it: x != 0, x != '', x != null, size(x) > 0",
        column=column,
    )


def any_true(operands: tuple[Closure, ...], columns: tuple[int, ...]) -> Closure:
    return _decided_by(True, "||", operands, columns)


def all_true(operands: tuple[Closure, ...], columns: tuple[int, ...]) -> Closure:
    return _decided_by(False, "&&", operands, columns)


def _decided_by(
    decisive: bool, sign: str, operands: tuple[Closure, ...], columns: tuple[int, ...]
) -> Closure:
    other = not decisive
    numbered = tuple(zip(operands, columns, strict=True))

    def run(frame: Frame) -> Any:
        first_fault: ExpressionFault | None = None
        for operand, column in numbered:
            try:
                value = operand(frame)
            except BudgetSpent:
                raise
            except ExpressionFault as fault:
                # Without its traceback, it does not keep this frame alive.
                first_fault = first_fault or fault.with_traceback(None)
                continue
            if value is decisive:
                return decisive
            if value is not other:
                first_fault = first_fault or not_boolean(sign, value, column)
        if first_fault is not None:
            raise first_fault
        return other

    return run


def choose(cases: tuple[tuple[Closure, Closure, int], ...], otherwise: Closure) -> Closure:
    def run(frame: Frame) -> Any:
        for condition, value, column in cases:
            holds = condition(frame)
            if holds is True:
                return value(frame)
            if holds is not False:
                raise not_boolean("?", holds, column)
        return otherwise(frame)

    return run


def inverted(inner: Closure, odd: bool, column: int) -> Closure:
    def run(frame: Frame) -> Any:
        value = inner(frame)
        if value is True:
            return not odd
        if value is False:
            return odd
        raise not_boolean("!", value, column)

    return run
