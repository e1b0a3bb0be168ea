"""Schema: checks a JSON value against a JSON Schema.

Reports the first mismatch, short enough for a screen.
"""

from __future__ import annotations

from typing import Any

from stepwell.errors import InvalidInput

_MESSAGE_MAX = 300  # characters; the validator quotes the value, however large it is


class Schema:
    def __init__(self, schema: dict[str, Any] | bool | str, *, linear: bool = False) -> None:
        """`schema` as text is its JSON. `linear`: refuse patterns that could take very long."""
        import jsonschema_rs  # imported only when something is checked

        patterns = jsonschema_rs.RegexOptions() if linear else None
        self._validator = jsonschema_rs.validator_for(
            schema, retriever=_refuse_remote_refs, pattern_options=patterns
        )

    def check(self, value: Any, **where: str) -> None:
        """Raise InvalidInput, which names the field and `where`, if the value does not fit."""
        problem = next(iter(self._validator.iter_errors(value)), None)
        if problem is not None:
            field = ".".join(str(part) for part in problem.instance_path)
            said = _shortened(problem.message) + (f" at {field}" if field else "")
            raise InvalidInput(said, field=field or "(the value itself)", **where)


def schema_fault(schema: Any, *, linear: bool = False) -> str:
    """Return why this is not a JSON Schema, or ''."""
    try:
        Schema(schema, linear=linear)
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
