"""Position: where a run is or how it ended, read from the end of its log if its row does not say it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from stepwell.domain.commit import LogRow
from stepwell.domain.status import Status
from stepwell.server import views

LOOKED_AT = 24  # events to read from the end of a log
RUNS_MAX = 50  # runs of one page whose logs are read
QUEUED_MAX = 12  # queued runs of one page to explain
READ = frozenset({Status.RUNNING, Status.FAILED, Status.TIMED_OUT, Status.CANCELLED})

_WORKED = {
    *("step_scheduled", "step_started", "step_completed", "step_failed"),
    *("transition_completed", "transition_failed", "child_started", "node_started"),
}


def position_of(rows: Sequence[LogRow]) -> views.PositionView | None:
    """Read a log from its end until both the place and the progress are known."""
    if rows and rows[-1].kind == "cancelled":
        return views.PositionView(path="", attempt=0, text=_cancelled(rows))
    position: dict[str, Any] = {}
    for row in reversed(rows):
        fact = _fact(row)
        if row.kind == "progress" and "text" not in position:
            position.update(text=str(fact.get("text", "")), **_numbers(fact.get("done"), fact.get("total")))
        elif row.kind in {"loop_advanced", "loop_started"} and "text" not in position:
            position.update(text="", path=row.path, attempt=1)
            position.update(_numbers(fact.get("done"), fact.get("count")))
        elif row.kind in _WORKED and row.path and "path" not in position:
            position.update(_worked(row, fact))
        if "path" in position and "text" in position:
            break
    if not position:
        return None
    return views.PositionView(**{"path": "", "attempt": 0, **position})


def _cancelled(rows: Sequence[LogRow]) -> str:
    """Return who cancelled a run and why: from its end, or from the request if a worker had the run."""
    facts = [_fact(row) for row in reversed(rows) if row.kind in {"cancelled", "cancel_requested"}]
    by = next((str(fact["by"]) for fact in facts if fact.get("by")), "")
    reason = next((str(fact["reason"]) for fact in facts if fact.get("reason")), "")
    return ": ".join(part for part in (f"by {by}" if by else "", reason) if part)


def _worked(row: LogRow, fact: dict[str, Any]) -> dict[str, Any]:
    wait = fact.get("retry_in")
    if row.kind.endswith("_failed") and isinstance(wait, int | float):
        error = fact.get("error") or {}
        return {
            "path": row.path,
            "attempt": row.attempt + 1,
            "retry_at": views.moment(row.at + wait),
            "error": str(error.get("type") or error.get("code") or ""),
        }
    return {"path": row.path, "attempt": row.attempt}


def _numbers(done: object, total: object) -> dict[str, float]:
    pairs: Iterable[tuple[str, object]] = (("done", done), ("total", total))
    return {name: value for name, value in pairs if isinstance(value, int | float)}


def _fact(row: LogRow) -> dict[str, Any]:
    try:
        fact = msgspec.json.decode(row.payload)
    except msgspec.DecodeError:
        return {}  # a reader of the log gets the error
    return fact if isinstance(fact, dict) else {}
