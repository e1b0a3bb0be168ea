"""Values: what workflow code may see only once, such as the time; a replay reads them from the log."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.engine.run.port import RunPort, check_open


def record_value(run: RunPort, path: str, what: str, value: Any) -> Raw:
    check_open(run)
    raw = Raw(msgspec.json.encode(value))
    run.journal.values[path] = raw
    run.record(ev.ValueRecorded(what=what, value=raw), path)
    return raw


def recorded_value(run: RunPort, path: str) -> Any:
    """The value that was recorded at this path; None: nothing yet."""
    raw = run.journal.values.get(path)
    return None if raw is None else msgspec.json.decode(raw)


def time_at(run: RunPort, path: str) -> float:
    """The time, recorded at this path."""
    raw = run.journal.values.get(path)
    if raw is None:
        raw = record_value(run, path, "now", run.now())
    return msgspec.json.decode(raw, type=float)
