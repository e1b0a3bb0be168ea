"""Schema: does a JSON value fit what was declared? The first misfit, in words that fit on a screen."""

from __future__ import annotations

from typing import Any

from stepwell.errors import InvalidInput

_MESSAGE_MAX = 300  # characters; the validator quotes the value, however large it is


class Schema:
    def __init__(self, schema: dict[str, Any] | bool | str) -> None:
        """`schema` as text is its JSON."""
        import jsonschema_rs  # where nothing is checked it is not needed

        self._validator = jsonschema_rs.validator_for(schema, retriever=_stay_at_home)

    def check(self, value: Any, **where: str) -> None:
        """InvalidInput, which names the field and says `where`, if the value does not fit."""
        problem = next(iter(self._validator.iter_errors(value)), None)
        if problem is not None:
            field = ".".join(str(part) for part in problem.instance_path) or "(the value itself)"
            raise InvalidInput(f"{_shown(problem.message)} at {field}", field=field, **where)


def schema_fault(schema: Any) -> str:
    """Why this is no JSON Schema; '': it is one."""
    try:
        Schema(schema)
    except (ValueError, TypeError) as error:
        return _shown(str(getattr(error, "message", error)))
    return ""


def _stay_at_home(address: str) -> Any:
    """A schema that people send must not make us read files or call hosts: it holds all that it needs."""
    raise ValueError(f"{address} is outside of the schema; put it into $defs")


def _shown(message: str) -> str:
    if len(message) <= _MESSAGE_MAX:
        return message
    half = _MESSAGE_MAX // 2
    return f"{message[:half]} … {message[-half:]}"
