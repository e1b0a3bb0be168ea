"""Schema: check a JSON value against a JSON Schema. Reports the first mismatch, short enough for a screen."""

from __future__ import annotations

from typing import Any

from stepwell.errors import InvalidInput

_MESSAGE_MAX = 300  # characters; the validator quotes the value, however large it is


class Schema:
    def __init__(self, schema: dict[str, Any] | bool | str) -> None:
        """`schema` as text is its JSON."""
        import jsonschema_rs  # imported only when something is checked

        self._validator = jsonschema_rs.validator_for(schema, retriever=_refuse_remote_refs)

    def check(self, value: Any, **where: str) -> None:
        """Raise InvalidInput, which names the field and `where`, if the value does not fit."""
        problem = next(iter(self._validator.iter_errors(value)), None)
        if problem is not None:
            field = ".".join(str(part) for part in problem.instance_path) or "(the value itself)"
            raise InvalidInput(f"{_shortened(problem.message)} at {field}", field=field, **where)


def schema_fault(schema: Any) -> str:
    """Why this is not a JSON Schema; '' if it is one."""
    try:
        Schema(schema)
    except (ValueError, TypeError) as error:
        return _shortened(str(getattr(error, "message", error)))
    return ""


def _refuse_remote_refs(address: str) -> Any:
    """A schema from outside must not make us read files or call hosts: it must be self-contained."""
    raise ValueError(f"{address} is outside the schema; put it into $defs")


def _shortened(message: str) -> str:
    if len(message) <= _MESSAGE_MAX:
        return message
    half = _MESSAGE_MAX // 2
    return f"{message[:half]} … {message[-half:]}"
