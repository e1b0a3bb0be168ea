"""Functions on lists and maps, and `json` of any value."""

from __future__ import annotations

from typing import Any

from stepwell.authoring.graphs.expressions.fault import ExpressionFault
from stepwell.authoring.graphs.expressions.frame import Frame
from stepwell.authoring.graphs.expressions.operators import CHARACTERS_A_STEP, ELEMENTS_A_STEP, items, string
from stepwell.authoring.graphs.expressions.values import json_text, type_name


def size(frame: Frame, value: Any) -> int:
    if type(value) in (str, list, dict):
        return len(value)
    raise ExpressionFault(f"size needs a string, a list or a map, this is {type_name(value)}")


def keys(frame: Frame, value: Any) -> list[str]:
    return items(frame, list(_map(frame, "keys", value)))


def values(frame: Frame, value: Any) -> list[Any]:
    return items(frame, list(_map(frame, "values", value).values()))


def _map(frame: Frame, function: str, value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise ExpressionFault(f"{function} needs a map, this is {type_name(value)}")
    frame.spend(1 + len(value) // ELEMENTS_A_STEP)
    return value


def join(frame: Frame, value: Any, separator: Any = "") -> str:
    if type(value) is not list or type(separator) is not str:
        raise ExpressionFault(
            f"join needs a list and a string, not {type_name(value)} and {type_name(separator)}"
        )
    length = len(separator) * max(0, len(value) - 1)
    for index, item in enumerate(value):
        if type(item) is not str:
            raise ExpressionFault(
                f"join needs strings, item {index} is {type_name(item)}",
                hint="items.map(x, string(x)).join(', ')",
            )
        length += len(item)
    if length > frame.limits.string_length:
        raise ExpressionFault(f"a string has at most {frame.limits.string_length:,} characters")
    frame.spend(1 + len(value) // ELEMENTS_A_STEP + length // CHARACTERS_A_STEP)
    return separator.join(value)


def json(frame: Frame, value: Any) -> str:
    text = json_text(value, frame.limits)
    frame.spend(1 + len(text) // 64)
    return string(frame, text)
