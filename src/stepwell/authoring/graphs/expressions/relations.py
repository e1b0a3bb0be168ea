"""Relations: closures for comparisons, with a fast path for two numbers or two short strings.

Most conditions compare one path with one constant; the general operators handle the rest.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from stepwell.authoring.graphs.expressions.fault import ExpressionFault
from stepwell.authoring.graphs.expressions.frame import Closure, Frame
from stepwell.authoring.graphs.expressions.operators import CHARACTERS_A_STEP, OPERATORS

# (left, right, the right side if it is a constant, column)
RelationBuilder: TypeAlias = Callable[[Closure, Closure, Any, int], Closure]


def _relation(sign: str, plain: Callable[[Any, Any], Any]) -> RelationBuilder:
    general = OPERATORS[sign]

    def build(left: Closure, right: Closure, constant: Any, column: int) -> Closure:
        def slowly(frame: Frame, one: Any, two: Any) -> Any:
            try:
                return general(frame, one, two)
            except ExpressionFault as fault:
                fault.column = fault.column or column
                raise

        def run(frame: Frame) -> Any:
            one, two = left(frame), right(frame)
            kind = type(one)
            if kind is type(two) and (kind is int or (kind is str and len(one) <= CHARACTERS_A_STEP)):
                return plain(one, two)
            return slowly(frame, one, two)

        def run_with_constant(frame: Frame) -> Any:
            one = left(frame)
            if type(one) is wanted:
                return plain(one, constant)
            return slowly(frame, one, constant)

        wanted = type(constant)
        return run_with_constant if wanted in (int, float, str) else run

    return build


FAST: dict[str, RelationBuilder] = {
    "==": _relation("==", operator.eq),
    "!=": _relation("!=", operator.ne),
    "<": _relation("<", operator.lt),
    "<=": _relation("<=", operator.le),
    ">": _relation(">", operator.gt),
    ">=": _relation(">=", operator.ge),
}
