"""Functions on strings, and conversions to string and bool."""

from __future__ import annotations

from typing import Any

from stepwell.authoring.graphs.expressions.fault import ExpressionFault
from stepwell.authoring.graphs.expressions.frame import Frame
from stepwell.authoring.graphs.expressions.operators import ELEMENTS_A_STEP, read_text, string
from stepwell.authoring.graphs.expressions.values import json_text, type_name

TRUTHS = {
    **dict.fromkeys(("true", "TRUE", "True", "t", "1"), True),
    **dict.fromkeys(("false", "FALSE", "False", "f", "0"), False),
}


def _strings(frame: Frame, function: str, *values: Any) -> None:
    for value in values:
        if type(value) is not str:
            raise ExpressionFault(
                f"{function} needs a string, this is {type_name(value)}", hint="convert it: string(x)"
            )
    read_text(frame, *values)


def to_string(frame: Frame, value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) in (bool, int, float):
        return json_text(value, frame.limits)
    raise ExpressionFault(
        f"string cannot convert {type_name(value)}",
        hint="json(x) writes any value, default(x, '') replaces null",
    )


def to_bool(frame: Frame, value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is str and value in TRUTHS:
        return TRUTHS[value]
    raise ExpressionFault(
        f"bool cannot convert {_described(value)}", hint="compare instead: x != 0, size(x) > 0"
    )


def _described(value: Any) -> str:
    return repr(value[:40]) if type(value) is str else type_name(value)


def lower(frame: Frame, value: Any) -> str:
    _strings(frame, "lower", value)
    return string(frame, value.lower())


def upper(frame: Frame, value: Any) -> str:
    _strings(frame, "upper", value)
    return string(frame, value.upper())


def trim(frame: Frame, value: Any) -> str:
    _strings(frame, "trim", value)
    return str(value.strip())


def starts_with(frame: Frame, value: Any, beginning: Any) -> bool:
    _strings(frame, "startsWith", value, beginning)
    return bool(value.startswith(beginning))


def ends_with(frame: Frame, value: Any, ending: Any) -> bool:
    _strings(frame, "endsWith", value, ending)
    return bool(value.endswith(ending))


def contains(frame: Frame, value: Any, part: Any) -> bool:
    _strings(frame, "contains", value, part)
    return part in value


def split(frame: Frame, value: Any, separator: Any) -> list[str]:
    """Split at the separator; an empty one splits into characters."""
    _strings(frame, "split", value, separator)
    pieces = value.count(separator) + 1 if separator else len(value)
    if pieces > frame.limits.list_length:
        raise ExpressionFault(f"a list has at most {frame.limits.list_length:,} items")
    frame.spend(1 + pieces // ELEMENTS_A_STEP)
    return value.split(separator) if separator else list(value)
