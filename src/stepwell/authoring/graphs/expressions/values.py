"""JSON values: their names in messages, their text, and bounded walks over them.

A value may hold the same list a thousand times, and again inside that. Each walk here counts its visits
and stops at its limit, so such values cost no more than others.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import msgspec

from stepwell.authoring.graphs.expressions.fault import ExpressionFault
from stepwell.authoring.graphs.expressions.limits import ExpressionLimits

TYPE_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    list: "list",
    dict: "map",
}
# About how many characters a number, true, false or null takes in JSON, with its comma.
SCALAR_SIZE = 4

_encode = msgspec.json.Encoder().encode


def type_name(value: object) -> str:
    return TYPE_NAMES.get(type(value)) or f"not a JSON value ({type(value).__name__})"


def json_text(value: Any, limits: ExpressionLimits) -> str:
    """Compact JSON. Numbers that JSON cannot hold, and text that would be too long, are faults."""
    check_size(value, limits.string_length, limits)
    try:
        return _encode(value).decode()
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise ExpressionFault(f"this cannot be written as JSON: {error}") from None


def text(value: Any, limits: ExpressionLimits) -> str:
    """A value inside a text: strings as they are, null as nothing, the rest as JSON."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is int:
        return str(value) if abs(value) < 10**30 else json_text(value, limits)
    if value is None:
        return ""
    return json_text(value, limits)


def check_size(value: Any, size_max: int, limits: ExpressionLimits) -> int:
    """The approximate length of a value as JSON. Refuses values that are too large, too deep or not JSON."""
    size = 0
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        kind = type(item)
        if kind is str:
            size += len(item) + 2
        elif kind is list or kind is dict:
            size += SCALAR_SIZE + len(item)
            if depth >= limits.data_depth:
                raise ExpressionFault(f"this value is nested deeper than {limits.data_depth}")
            if size > size_max:
                break
            if kind is list:
                waiting.extend([(each, depth + 1) for each in item])
            else:
                for key, each in item.items():
                    if type(key) is not str:
                        raise ExpressionFault(f"keys are strings, this one is {type_name(key)}")
                    size += len(key) + 3
                    waiting.append((each, depth + 1))
        elif kind is float and not isfinite(item):
            raise ExpressionFault(f"JSON has no {item}", hint="look for a division by zero or an overflow")
        elif kind not in TYPE_NAMES:
            raise ExpressionFault(f"this is {type_name(item)}")
        else:
            size += SCALAR_SIZE
        if size > size_max:
            break
    if size > size_max:
        raise ExpressionFault(
            f"this value is larger than {size_max:,} characters", hint="pass on less, or a reference"
        )
    return size


def copy(value: Any) -> Any:
    """A copy with its own lists and maps; call check_size first, which bounds the depth."""
    kind = type(value)
    if kind is dict:
        return {key: copy(item) for key, item in value.items()} if value else {}
    if kind is list:
        return [copy(item) for item in value]
    return value
