"""Functions on numbers, and conversions to them."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal
from math import isfinite
from typing import Any

from stepwell.authoring.graphs.expressions.fault import ExpressionFault
from stepwell.authoring.graphs.expressions.frame import Frame
from stepwell.authoring.graphs.expressions.literals import INTEGER_MIN
from stepwell.authoring.graphs.expressions.operators import (
    COMPARISONS_A_STEP,
    NUMBERS,
    double,
    greater,
    integer,
    less,
)
from stepwell.authoring.graphs.expressions.values import type_name

# Stricter than Python's own parsers, which accept blanks, underscores and "nan".
INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
DIGITS_MAX = 15
ROUNDING_STEPS = 10
TEXT_MAX = 400


def to_int(frame: Frame, value: Any) -> int:
    """Doubles lose their decimals."""
    if type(value) is int:
        return integer(value)
    if type(value) is float:
        if not isfinite(value):
            raise ExpressionFault(f"there is no integer for {value}")
        if value == INTEGER_MIN:  # excluded in CEL: the double may stand for a smaller number
            raise ExpressionFault("the result does not fit in 64 bits")
        return integer(int(value))
    if type(value) is str and INTEGER.fullmatch(value):
        return integer(int(value))
    raise ExpressionFault(f"int cannot convert {_described(value)}")


def to_double(frame: Frame, value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        return float(integer(value))
    if type(value) is str and len(value) <= TEXT_MAX and DOUBLE.fullmatch(value):
        return double(frame, float(value))
    raise ExpressionFault(f"double cannot convert {_described(value)}")


def _described(value: Any) -> str:
    return repr(value[:40]) if type(value) is str else type_name(value)


def least(frame: Frame, *arguments: Any) -> Any:
    smallest, *others = _candidates(frame, "min", arguments)
    for value in others:
        if less(frame, value, smallest):
            smallest = value
    return smallest


def greatest(frame: Frame, *arguments: Any) -> Any:
    largest, *others = _candidates(frame, "max", arguments)
    for value in others:
        if greater(frame, value, largest):
            largest = value
    return largest


def _candidates(frame: Frame, function: str, arguments: tuple[Any, ...]) -> list[Any]:
    if len(arguments) > 1:
        return list(arguments)
    values = _list(frame, function, arguments[0])
    if not values:
        raise ExpressionFault(f"{function} of an empty list", hint="check size(x) first")
    if len(values) == 1 and type(values[0]) not in (int, float, str, bool):
        raise ExpressionFault(f"{function} needs numbers or strings, this is {type_name(values[0])}")
    return values


def total(frame: Frame, value: Any) -> int | float:
    """The sum of integers is an integer; one double makes it a double."""
    values = _list(frame, "sum", value)
    total: int | float = 0
    for index, item in enumerate(values):
        if type(item) not in NUMBERS:
            raise ExpressionFault(f"sum needs numbers, item {index} is {type_name(item)}")
        total = total + item
        total = integer(total) if type(total) is int else double(frame, total)
    return total


def _list(frame: Frame, function: str, value: Any) -> list[Any]:
    if type(value) is not list:
        raise ExpressionFault(f"{function} needs a list, this is {type_name(value)}")
    frame.spend(1 + len(value) // COMPARISONS_A_STEP)
    return value


def _number(function: str, value: Any) -> int | float:
    if type(value) is int or type(value) is float:
        return value
    raise ExpressionFault(f"{function} needs a number, this is {type_name(value)}")


def absolute(frame: Frame, value: Any) -> int | float:
    number = _number("abs", value)
    return integer(abs(number)) if isinstance(number, int) else abs(number)


def rounded(frame: Frame, value: Any, digits: Any = None) -> int | float:
    """Halves round away from zero, by the written digits: 2.675 to two digits is 2.68."""
    number = _number("round", value)
    if digits is not None and (type(digits) is not int or not 0 <= digits <= DIGITS_MAX):
        raise ExpressionFault(f"round keeps 0 to {DIGITS_MAX} digits")
    if isinstance(number, int):
        return integer(number)
    if not isfinite(number):
        raise ExpressionFault(f"{number} cannot be rounded")
    frame.spend(ROUNDING_STEPS)
    step = Decimal(1).scaleb(-(digits or 0))
    if abs(number) >= 1e16:  # a double this large has no decimals
        return integer(int(number)) if digits is None else number
    near = Decimal(repr(number)).quantize(step, rounding=ROUND_HALF_UP)
    return integer(int(near)) if digits is None else float(near)
