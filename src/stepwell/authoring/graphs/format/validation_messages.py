"""Pydantic's validation errors as graph problems with suggestions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_snake

from stepwell.authoring.graphs.problems import GraphProblem
from stepwell.domain.suggest import did_you_mean_one_of

_KEY = "[key]"  # follows the key in pydantic's location if the key itself is invalid
_COMPARED_MAX = 5  # problems of one node: if it is not a graph at all, every field may be unknown
_QUOTED = re.compile(r"'([^']*)'")
_ADVICE = {
    "missing": "add it",
    "extra_forbidden": "remove it",
    "int_type": "give a whole number, without quotes",
    "int_from_float": "give a whole number",
    "bool_type": "give true or false, without quotes",
    "string_type": "give a string",
    "list_type": "give a list",
    "dict_type": "give an object",
    "model_type": "give an object",
    "model_attributes_type": "give an object",
    "string_too_short": "give a non-empty string",
}

# Fields whose values have a code of their own.
_CODES = {
    "timeoutMs": "TIMEOUT",
    "maxExecutionMs": "TIMEOUT",
    "suspendTtlMs": "DURATION",
    "ms": "DURATION",
    "duration": "DURATION",
    "pollMs": "DURATION",
    "until": "TIMESTAMP",
    "retry": "RETRY_POLICY",
    "maxAttempts": "RETRY_POLICY",
    "delayMs": "RETRY_POLICY",
    "count": "JOIN_COUNT_RANGE",
    "outputVariable": "VARIABLE_NAME",
}


def fields_of(model: type[BaseModel]) -> list[str]:
    """The names of its fields in JSON."""
    return [field.alias or name for name, field in model.model_fields.items()]


def shape_problems(
    error: ValidationError,
    code: str,
    given: Any,
    *,
    node: str = "",
    edge: str = "",
    names: list[str] | None = None,
    depth: int = 1,
) -> list[GraphProblem]:
    """What is wrong with what was given; `names` are those of the fields at that depth."""
    problems = []
    for place, (path, details) in enumerate(_by_field(error, given)):
        known = names or [] if place < _COMPARED_MAX and len(path) == depth else []
        hints = dict.fromkeys(_suggestion(detail, known) for detail in details)
        problems.append(
            GraphProblem(
                code=_code(details[0], path) or code,
                message=" or ".join(dict.fromkeys(map(_message, details))),
                node=node,
                edge=edge,
                field=".".join(path),
                suggestion=", or ".join(hints),
            )
        )
    return problems


def _by_field(error: ValidationError, given: Any) -> list[tuple[tuple[str, ...], list[Mapping[str, Any]]]]:
    """Group them by field: a value that may be of several kinds is wrong as each of them."""
    grouped: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    choices: set[tuple[str, ...]] = set()
    for detail in error.errors():
        path, choice = _path(detail, given)
        grouped.setdefault(path, []).append(detail)
        if choice is not None:
            choices.add(choice)
    for choice in choices:  # a part of one kind is wrong: what the other kinds say does not help
        if any(path[: len(choice)] == choice != path for path in grouped):
            grouped.pop(choice, None)
    return list(grouped.items())


def _path(detail: Mapping[str, Any], given: Any) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return where a value is, and where pydantic had a choice of kinds on the way, if it had one.

    Pydantic names the kind as if it were a part of the way, such as `list[str]`; nothing there has that name.
    """
    path: list[str] = []
    choice: tuple[str, ...] | None = None
    *way, last = detail["loc"] or ("",)
    for part in (*way, last):
        key = part if not isinstance(given, dict) or part in given else to_snake(str(part))
        if isinstance(given, dict) and key in given:
            given = given[key]
        elif isinstance(given, list) and isinstance(part, int) and part < len(given):
            given = given[part]
        elif detail["type"] != "missing" or part is not last:
            choice = choice or tuple(path) if part not in ("", _KEY) else choice
            continue
        path.append(str(part))
    if detail["type"] == "field_error":  # the validator of an object knows which of its fields it is
        path.append(detail["ctx"]["field"])
    return tuple(path), choice


def _code(detail: Mapping[str, Any], path: tuple[str, ...]) -> str:
    if detail["type"] == "extra_forbidden":
        return ""  # the field itself is wrong, not its value
    if detail["loc"][-1:] == (_KEY,):
        return "VARIABLE_NAME"
    if detail["type"] == "field_error":  # what is wrong is the object around the field
        path = path[:-1]
    return next((_CODES[part] for part in path if part in _CODES), "")


def _message(detail: Mapping[str, Any]) -> str:
    if detail["type"] in ("model_type", "model_attributes_type"):
        return "Input should be an object"  # pydantic would name our class
    return str(detail["msg"]).removeprefix("Value error, ")


def _suggestion(detail: Mapping[str, Any], names: list[str]) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden" and names:
        return did_you_mean_one_of(str(detail["loc"][-1]), names)
    context = detail.get("ctx") or {}
    if kind == "field_error":
        return str(context["suggestion"])
    if kind == "literal_error":
        return did_you_mean_one_of(str(detail["input"]), _QUOTED.findall(str(context.get("expected", ""))))
    if kind == "string_pattern_mismatch":
        if ":" not in str(context.get("pattern", "")):
            return "begin with a letter or _; then letters, digits and _, at most 64"
        return "begin with a letter, a digit or _; then letters, digits, _ - . : without spaces"
    return _ADVICE.get(kind, "") or "give a valid value"
