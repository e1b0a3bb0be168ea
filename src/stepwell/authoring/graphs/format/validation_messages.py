"""Pydantic's validation errors as graph problems with suggestions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

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
    error: ValidationError, code: str, *, node: str = "", edge: str = "", names: list[str] | None = None
) -> list[GraphProblem]:
    return [
        GraphProblem(
            code=_code(detail) or code,
            message=_message(detail),
            node=node,
            edge=edge,
            field=".".join(str(part) for part in detail["loc"] if part != _KEY),
            suggestion=_suggestion(detail, (names or []) if place < _COMPARED_MAX else []),
        )
        for place, detail in enumerate(error.errors())
    ]


def _code(detail: Mapping[str, Any]) -> str:
    if detail["type"] == "extra_forbidden":
        return ""  # the field itself is wrong, not its value
    if detail["loc"][-1:] == (_KEY,):
        return "VARIABLE_NAME"
    return next((_CODES[part] for part in detail["loc"] if part in _CODES), "")


def _message(detail: Mapping[str, Any]) -> str:
    if detail["type"] in ("model_type", "model_attributes_type"):
        return "Input should be an object"  # pydantic would name our class
    return str(detail["msg"]).removeprefix("Value error, ")


def _suggestion(detail: Mapping[str, Any], names: list[str]) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden" and names:
        return did_you_mean_one_of(str(detail["loc"][-1]), names)
    context = detail.get("ctx") or {}
    if kind == "literal_error":
        return did_you_mean_one_of(str(detail["input"]), _QUOTED.findall(str(context.get("expected", ""))))
    if kind == "string_pattern_mismatch":
        if ":" not in str(context.get("pattern", "")):
            return "begin with a letter or _; then letters, digits and _, at most 64"
        return "begin with a letter, a digit or _; then letters, digits, _ - . : without spaces"
    return _ADVICE.get(kind, "") or "give a valid value"
