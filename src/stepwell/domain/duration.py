"""Durations as people write them: "30s", "1h30m", 90, timedelta."""

from __future__ import annotations

import re
from datetime import timedelta

from stepwell.errors import InvalidDefinition, excerpt

Duration = str | int | float | timedelta

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d|w)")
_MAX = 100 * 366 * 86400.0


def seconds(value: Duration, *, name: str = "duration") -> float:
    """The duration in seconds; InvalidDefinition if it is negative, malformed or longer than a century."""
    if isinstance(value, timedelta):
        result = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        result = float(value)
    elif isinstance(value, str):
        result = _parse(value, name)
    else:
        raise InvalidDefinition(
            f"{name} is {excerpt(value)}, which is not a duration",
            hint='write "30s", "1h30m", a number of seconds or a timedelta',
        )
    if not 0 <= result <= _MAX:
        raise InvalidDefinition(f"{name} is {excerpt(value)}", hint="a duration is between 0 and 100 years")
    return result


class DefaultTimeout(float):
    """A timeout that the author did not choose. A worker's setting replaces it."""


def chosen(timeout: float | None, default: float | None) -> float | None:
    """Return the timeout that applies on a worker with that default."""
    return default if type(timeout) is DefaultTimeout else timeout


def timeout_seconds(value: Duration | None, *, name: str = "timeout") -> float | None:
    """The timeout in seconds: None disables it; 0 could never be met and is refused."""
    if value is None or type(value) is DefaultTimeout:
        return value
    result = seconds(value, name=name)
    if result == 0:
        raise InvalidDefinition(
            f"{name} is 0, which no work can meet", hint=f"{name}=None disables the timeout"
        )
    return result


def _parse(text: str, name: str) -> float:
    compact = text.strip().lower()
    parts = _PART.findall(compact)
    if not parts or "".join(_PART.split(compact)[::3]).strip():
        try:
            return float(compact)
        except ValueError:
            raise InvalidDefinition(
                f"{name} is {excerpt(text)}, which is not a duration", hint='write "30s", "5m", "1h30m", "3d"'
            ) from None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
