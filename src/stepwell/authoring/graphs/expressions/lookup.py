"""Lookup: the only two ways from one value to another, a key of a dict and an index of a list.

The evaluator never reads an attribute of a Python object by a name that comes from data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.authoring.graphs.expressions.fault import ExpressionFault
from stepwell.authoring.graphs.expressions.values import type_name

OTHER_SCOPES = {
    "secrets": "name credentials in the settings of a node; expressions cannot read them",
    "env": "expressions do not see the environment; pass the values as input",
    "process": "expressions do not see the process; pass the values as input",
}


def root(scope: Mapping[str, Any], name: str, column: int) -> Any:
    try:
        return scope[name]
    except KeyError:
        raise ExpressionFault(
            f"there is no {name!r} here",
            hint=OTHER_SCOPES.get(name, ""),
            column=column,
            path=name,
            wanted=name,
            names=scope,
        ) from None


def member(value: Any, name: str, optional: bool, path: str, column: int) -> Any:
    """`value.name`; `path` is the text up to and including the name."""
    if type(value) is dict:
        if name in value:
            return value[name]
        if optional:
            return None
        raise missing(path, name, value, column)
    if value is None and optional:
        return None
    if value is None:
        raise ExpressionFault(
            f"{path} does not exist: the value before it is null",
            hint=f"write ?.{name} to get null instead",
            column=column,
            path=path,
        )
    raise ExpressionFault(
        f"{path} does not exist: the value before it is {type_name(value)}, which has no members",
        column=column,
        path=path,
    )


def missing(path: str, name: str, value: dict[str, Any], column: int) -> ExpressionFault:
    return ExpressionFault(
        f"{path} does not exist",
        hint=f"write ?.{name} to get null if it is absent, or default(...) for another value",
        column=column,
        path=path,
        wanted=name,
        names=value,
    )


def element(value: Any, key: Any, optional: bool, path: str, column: int) -> Any:
    """`value[key]`"""
    if type(value) is dict:
        if type(key) is not str:
            raise ExpressionFault(
                f"keys of a map are strings, this one is {type_name(key)}", column=column, path=path
            )
        if key in value:
            return value[key]
        if optional:
            return None
        fault = missing(path, key, value, column)
        fault.message = f"{path} does not exist: there is no key {key[:60]!r}"
        fault.hint = "write ?.[...] to get null if it is absent"
        raise fault
    if type(value) is list:
        index = int(key) if type(key) is float and key.is_integer() else key
        if type(index) is not int:
            raise ExpressionFault(
                f"an index of a list is an integer, this one is {type_name(key)}", column=column, path=path
            )
        if 0 <= index < len(value):
            return value[index]
        if optional:
            return None
        raise ExpressionFault(
            f"{path} does not exist: the list has {len(value)} items, counted from 0",
            column=column,
            path=path,
        )
    if value is None and optional:
        return None
    raise ExpressionFault(
        f"{path} does not exist: the value before it is {type_name(value)}", column=column, path=path
    )


def is_present(value: Any, name: str, column: int) -> bool:
    """has(value.name)"""
    if type(value) is dict:
        return name in value
    raise ExpressionFault(f"has needs a map, this is {type_name(value)}", column=column)
