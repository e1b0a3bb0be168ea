"""Operators: CEL's arithmetic, comparison and membership on JSON values.

Nothing is converted silently: `1 + 1.0` and `'10' < 9` are faults. Integers have 64 bits, division
truncates towards zero. Numbers are compared by their value, whether int or double, and values of
different types are never equal.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, inf, isfinite, isnan, nan
from typing import Any, Protocol

from stepwell.authoring.graphs.expressions.fault import ExpressionFault
from stepwell.authoring.graphs.expressions.frame import Frame
from stepwell.authoring.graphs.expressions.literals import INTEGER_MAX, INTEGER_MIN
from stepwell.authoring.graphs.expressions.values import type_name

# One step pays for this number of characters, of items that Python itself walks, or of items that are
# compared here one by one.
CHARACTERS_A_STEP = 512
ELEMENTS_A_STEP = 16
COMPARISONS_A_STEP = 4

NUMBERS = frozenset({int, float})
ORDERED = frozenset({int, float, str, bool})


class Operator(Protocol):
    def __call__(self, frame: Frame, left: Any, right: Any, /) -> Any: ...


def integer(value: int) -> int:
    if INTEGER_MIN <= value <= INTEGER_MAX:
        return value
    raise ExpressionFault(
        "the result does not fit in 64 bits", hint="use double(x) if size matters more than precision"
    )


def double(frame: Frame, value: float) -> float:
    if not isfinite(value):
        frame.non_finite = True
    return value


def string(frame: Frame, value: str) -> str:
    if len(value) > frame.limits.string_length:
        raise ExpressionFault(f"a string has at most {frame.limits.string_length:,} characters")
    return value


def items(frame: Frame, value: list[Any]) -> list[Any]:
    if len(value) > frame.limits.list_length:
        raise ExpressionFault(f"a list has at most {frame.limits.list_length:,} items")
    return value


def read_text(frame: Frame, *texts: str) -> None:
    """Pay for reading texts."""
    frame.spend(1 + sum(map(len, texts)) // CHARACTERS_A_STEP)


def mismatch(verb: str, left: object, right: object) -> ExpressionFault:
    hint = ""
    if {type(left), type(right)} == {int, float}:
        hint = "convert one of them: double(x) or int(x)"
    elif str in (type(left), type(right)):
        hint = "convert one of them: string(x), int(x) or double(x)"
    elif left is None or right is None:
        hint = "give null a value first: default(x, 0)"
    return ExpressionFault(f"{verb} {type_name(left)} and {type_name(right)}", hint=hint)


def add(frame: Frame, left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return integer(left + right)
        if kind is float:
            return double(frame, left + right)
        if kind is str:
            if len(left) + len(right) > frame.limits.string_length:
                raise ExpressionFault(f"a string has at most {frame.limits.string_length:,} characters")
            read_text(frame, left, right)
            return left + right
        if kind is list:
            if len(left) + len(right) > frame.limits.list_length:
                raise ExpressionFault(f"a list has at most {frame.limits.list_length:,} items")
            frame.spend(1 + (len(left) + len(right)) // ELEMENTS_A_STEP)
            return left + right
    raise mismatch("+ cannot join", left, right)


def subtract(frame: Frame, left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return integer(left - right)
        if kind is float:
            return double(frame, left - right)
    raise mismatch("- does not go with", left, right)


def multiply(frame: Frame, left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return integer(left * right)
        if kind is float:
            return double(frame, left * right)
    raise mismatch("* does not go with", left, right)


def divide(frame: Frame, left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            if not right:
                raise ExpressionFault("division by zero")
            quotient = abs(left) // abs(right)
            return integer(quotient if (left < 0) == (right < 0) else -quotient)
        if kind is float:
            if right:
                return double(frame, left / right)
            frame.non_finite = True
            return nan if isnan(left) or not left else copysign(inf, left) * copysign(1.0, right)
    raise mismatch("/ does not go with", left, right)


def modulo(frame: Frame, left: Any, right: Any) -> Any:
    if type(left) is int and type(right) is int:
        if not right:
            raise ExpressionFault("division by zero")
        # The sign is that of the left side. The one quotient that overflows is a fault in CEL too.
        integer(abs(left) // abs(right) if (left < 0) == (right < 0) else 0)
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    raise mismatch("% takes two integers, not", left, right)


def negate(frame: Frame, value: Any) -> Any:
    if type(value) is int:
        return integer(-value)
    if type(value) is float:
        return -value
    raise ExpressionFault(f"- needs a number, this is {type_name(value)}")


def equal(frame: Frame, left: Any, right: Any) -> bool:
    """Never a fault for JSON values. Lists and maps are compared by content."""
    kind, other = type(left), type(right)
    if kind is not list and kind is not dict:
        if kind is other:
            if kind is str:
                read_text(frame, left)
            return bool(left == right)
        return kind in NUMBERS and other in NUMBERS and as_double(left) == as_double(right)
    return kind is other and _equal_inside(frame, left, right)


def _equal_inside(frame: Frame, left: Any, right: Any) -> bool:
    """Compare with an explicit stack: data may be deep, and wide at every level."""
    waiting: list[tuple[Any, Any]] = [(left, right)]
    while waiting:
        one, two = waiting.pop()
        if type(one) is list and type(two) is list:
            if len(one) != len(two):
                return False
            frame.spend(1 + len(one) // COMPARISONS_A_STEP)
            waiting.extend(zip(one, two, strict=True))
        elif type(one) is dict and type(two) is dict:
            if one.keys() != two.keys():
                return False
            frame.spend(1 + len(one) // COMPARISONS_A_STEP)
            waiting.extend((value, two[key]) for key, value in one.items())
        elif type(one) in (list, dict) or not equal(frame, one, two):
            return False
    return True


def unequal(frame: Frame, left: Any, right: Any) -> bool:
    return not equal(frame, left, right)


def ordered(frame: Frame, left: Any, right: Any) -> tuple[Any, Any]:
    """The two values in a form that Python can compare; a fault if they have no order."""
    kind, other = type(left), type(right)
    if kind is other and kind in ORDERED:
        if kind is str:
            read_text(frame, left if len(left) < len(right) else right)
        return left, right
    if kind in NUMBERS and other in NUMBERS:
        return as_double(left), as_double(right)
    raise mismatch("there is no order between", left, right)


def as_double(value: int | float) -> float:
    """CEL compares an int with a double as doubles, so beyond 2^53 neighbours are equal."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def less(frame: Frame, left: Any, right: Any) -> bool:
    one, two = ordered(frame, left, right)
    return bool(one < two)


def less_or_equal(frame: Frame, left: Any, right: Any) -> bool:
    one, two = ordered(frame, left, right)
    return bool(one <= two)


def greater(frame: Frame, left: Any, right: Any) -> bool:
    one, two = ordered(frame, left, right)
    return bool(one > two)


def greater_or_equal(frame: Frame, left: Any, right: Any) -> bool:
    one, two = ordered(frame, left, right)
    return bool(one >= two)


def contained(frame: Frame, item: Any, container: Any) -> bool:
    if type(container) is dict:
        # In CEL a key may also be an int or a bool; here no map has such a key.
        if type(item) not in (str, int, bool):
            raise ExpressionFault(f"no key of a map is {type_name(item)}")
        return type(item) is str and item in container
    if type(container) is not list:
        raise ExpressionFault(f"in needs a list or a map on its right, this is {type_name(container)}")
    if type(item) is str:
        # Python's own search is right for strings: nothing else equals one.
        frame.spend(1 + len(container) // ELEMENTS_A_STEP)
        return item in container
    frame.spend(1 + len(container) // COMPARISONS_A_STEP)
    return any(equal(frame, item, each) for each in container)


OPERATORS: dict[str, Callable[[Frame, Any, Any], Any]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": modulo,
    "==": equal,
    "!=": unequal,
    "<": less,
    "<=": less_or_equal,
    ">": greater,
    ">=": greater_or_equal,
    "in": contained,
}
