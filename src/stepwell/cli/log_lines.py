"""Log lines of a process as JSON objects: time, level, logger, message, and the run, step and attempt."""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

LogFormat = Literal["text", "json"]
# Messages of the engine name their run and step.
_PLACE = re.compile(r"\brun ([0-9a-f]{32})(?:, step ([^\s:]+))?")
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object a line. What code passes as `extra` becomes fields."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
            **_place(record, message),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields, enc_hook=str).decode()


def _place(record: logging.LogRecord, message: str) -> dict[str, Any]:
    from stepwell.engine.execution.step_log import current_place

    if (place := current_place()) is not None:
        return dict(zip(("run", "step", "attempt"), place, strict=True))
    if record.name.startswith("stepwell") and (match := _PLACE.search(message)):
        return {"run": match[1], **({"step": match[2]} if match[2] else {})}
    return {}


def write_log(format: LogFormat) -> None:
    """Write the log of this process to stderr in that format; JSON includes the level `info`."""
    if format == "text":
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
