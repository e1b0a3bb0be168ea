"""Functions on time: milliseconds since 1970, UTC. now() is passed in, so that replay sees the same."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

from stepwell.authoring.graphs.expressions.fault import ExpressionFault
from stepwell.authoring.graphs.expressions.frame import Frame
from stepwell.authoring.graphs.expressions.operators import read_text, string
from stepwell.authoring.graphs.expressions.values import type_name

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
WRITTEN = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?)?"
)
PART = re.compile("YYYY|MM|DD|HH|mm|ss|SSS|iso")
FORMAT_LENGTH_MAX = 200
DATE_STEPS = 10


def now(frame: Frame) -> int:
    if frame.now is None or not isfinite(frame.now):
        raise ExpressionFault("now() has no meaning here", hint="pass the time in as data")
    return round(frame.now * 1000)


def date(frame: Frame, *arguments: Any) -> int | str:
    """date(text), date(year, month, day): milliseconds. date(time, format): text."""
    frame.spend(DATE_STEPS)
    if len(arguments) == 3:
        if any(type(part) is not int for part in arguments):
            raise ExpressionFault("date(year, month, day) needs integers")
        return _milliseconds(_day(*arguments))
    when = _read(frame, arguments[0])
    if len(arguments) == 1:
        return _milliseconds(when)
    if type(arguments[1]) is not str or len(arguments[1]) > FORMAT_LENGTH_MAX:
        raise ExpressionFault(f"the format of a date is a short string, this is {type_name(arguments[1])}")
    frame.spend(len(arguments[1]))
    return string(frame, _written(when, arguments[1]))


def _day(year: int, month: int, day: int) -> datetime:
    try:
        return datetime(year, month, day, tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ExpressionFault("there is no such date") from None


def _read(frame: Frame, value: Any) -> datetime:
    if type(value) is int or type(value) is float:
        try:
            return EPOCH + timedelta(milliseconds=value)
        except (OverflowError, ValueError):
            raise ExpressionFault("the time is outside the years 1 to 9999") from None
    if type(value) is not str:
        raise ExpressionFault(f"date needs a string or milliseconds, this is {type_name(value)}")
    read_text(frame, value)
    if len(value) <= 40 and WRITTEN.fullmatch(value):
        try:
            when = datetime.fromisoformat(value)
            return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            pass
    raise ExpressionFault(
        f"{value[:40]!r} is not a date",
        hint="write 2026-01-31, 2026-01-31T12:00Z or 2026-01-31T12:00+02:00",
    )


def _milliseconds(when: datetime) -> int:
    return (when - EPOCH) // MILLISECOND


def _written(when: datetime, pattern: str) -> str:
    millisecond = f"{when.microsecond // 1000:03}"
    parts = {
        "YYYY": f"{when.year:04}",
        "MM": f"{when.month:02}",
        "DD": f"{when.day:02}",
        "HH": f"{when.hour:02}",
        "mm": f"{when.minute:02}",
        "ss": f"{when.second:02}",
        "SSS": millisecond,
        "iso": f"{when:%Y-%m-%dT%H:%M:%S}.{millisecond}Z".rjust(24, "0"),
    }
    return PART.sub(lambda part: parts[part[0]], pattern)
