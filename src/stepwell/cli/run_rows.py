"""Runs as rows of a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepwell.cli.output import Column
from stepwell.cli.text import STYLES, duration_text, marked, short_time, time_text

if TYPE_CHECKING:
    from stepwell.domain.commit import RunRow

SHORT_ID = 16  # characters of an id in a terminal: its time, and enough to differ


def columns(now: float, rows: Sequence[RunRow]) -> list[Column]:
    """Return the columns of a list of runs; their widths do not depend on the rows, which may come later."""

    def short(run: RunRow) -> str:
        """Return the beginning of an id, or all of it if another row begins alike."""
        start = run.id[:SHORT_ID]
        return start if sum(row.id.startswith(start) for row in rows) == 1 else str(run.id)

    return [
        Column(
            "STATUS", _status, lambda run: marked(_status(run)), lambda run: STYLES[_status(run)], width=11
        ),
        Column("RUN", lambda run: str(run.id), short, width=SHORT_ID, whole=True),
        Column("WORKFLOW", lambda run: f"{run.workflow}@{run.version}", width=32, share=5),
        Column("KEY", lambda run: str(run.key), width=18, wide=True),
        Column(
            "CREATED",
            lambda run: time_text(run.created_at) or "",
            lambda run: short_time(run.created_at, now),
            width=12,
        ),
        Column("TOOK", lambda run: duration_text(_took(run, now)), width=6),
        Column("WHERE", _where, width=200, share=6),
    ]


def _status(run: RunRow) -> str:
    """Return the status; `held` if an operator stopped the run, whatever its status is."""
    return "held" if run.held and not run.status.terminal else str(run.status.value)


def _took(run: RunRow, now: float) -> float | None:
    return (run.ended_at or now) - run.created_at


def _where(run: RunRow) -> str:
    error = decoded(run.error)
    message = error.get("message") if isinstance(error, dict) else ""
    return " ".join(str(message or where_text(run)).split())


def where_text(run: RunRow) -> str:
    """Return where a run is, and how far: `47 of 312`."""
    if run.done is None or run.status.terminal:
        return run.where_at
    progress = f"{run.done:g}" if run.total is None else f"{run.done:g} of {run.total:g}"
    return f"{run.where_at} ({progress})" if run.where_at else progress


def run_data(run: RunRow) -> dict[str, Any]:
    """Return a run as JSON shows it, without its payloads."""
    return {
        "id": run.id,
        "workflow": run.workflow,
        "version": run.version,
        "kind": run.kind,
        "status": run.status.value,
        "held": run.held,
        "where_at": run.where_at,
        "number": run.number,
        "key": run.key,
        "parent": run.parent,
        "root": run.root,
        "tags": decoded(run.tags),
        "trigger": run.trigger,
        "started_by": run.started_by,
        "done": run.done,
        "total": run.total,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "cost": run.cost,
        "created_at": time_text(run.created_at),
        "started_at": time_text(run.started_at),
        "ended_at": time_text(run.ended_at),
        "test": run.test,
    }


def whole_run_data(run: RunRow) -> dict[str, Any]:
    """Return a run with its input, output and error."""
    payloads = {"input": decoded(run.input), "output": decoded(run.output), "error": decoded(run.error)}
    return {**run_data(run), **payloads}


def decoded(data: bytes | None) -> Any:
    import msgspec

    return None if data is None else msgspec.json.decode(data)
