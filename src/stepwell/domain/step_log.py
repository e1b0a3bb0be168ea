"""The log of a step: what the code of an attempt logged and printed, line by line.

It is kept beside the log of the run. Lines are for people; no decision reads them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import msgspec

from stepwell.domain.ids import RunId

LINE_CHARACTERS_MAX = 16_000
LINES_PAGE = 1_000  # lines in one read

Stream: TypeAlias = Literal["log", "stdout", "stderr"]
Capture: TypeAlias = Literal["all", "logging", "off"]  # what workers keep of a step's output


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line. `level` and `logger` are those of `logging`; printed lines have neither."""

    text: str
    stream: Stream = "log"
    level: str = ""
    logger: str = ""


class NewLogLine(NamedTuple):
    """A line to write. `key` is unique within the attempt, so that writing it twice is harmless."""

    run_id: RunId
    path: str
    attempt: int
    key: str
    at: float
    payload: bytes  # a LogLine as JSON


class LogLineRow(NamedTuple):
    """A line as a store keeps it. `n` counts the lines of its run in the order of writing."""

    n: int
    path: str
    attempt: int
    key: str
    at: float
    payload: bytes


def line_of(text: str, stream: Stream, *, level: str = "", logger: str = "") -> bytes:
    """Encode a line. A line that is too long is cut, and what JSON cannot hold is escaped."""
    if len(text) > LINE_CHARACTERS_MAX:
        text = f"{text[:LINE_CHARACTERS_MAX]} ... ({len(text) - LINE_CHARACTERS_MAX:,} more characters)"
    return msgspec.json.encode(LogLine(_storable(text), stream, level, _storable(logger)))


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
