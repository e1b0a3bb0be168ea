"""`stepwell runs list | get | events`: output for people, or as JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from stepwell.client import Client
from stepwell.client.handle import RunHandle
from stepwell.client.run_event import RunEvent
from stepwell.domain.commit import RunRow
from stepwell.errors import LogDamaged

HEADS = ("STATUS", "RUN", "WORKFLOW", "KEY", "CREATED", "WHERE")


async def show(client: Client, options: argparse.Namespace) -> None:
    await _show(client, options)
    sys.stdout.flush()  # here, where a closed pipe is handled


async def _show(client: Client, options: argparse.Namespace) -> None:
    if options.what == "list":
        await _list(client, options)
    elif options.what == "get":
        await _get(client, options)
    else:
        async for event in client.handle(options.run).events(follow=options.follow):
            print(_json(_event_data(event)) if options.json else _event_line(event), flush=options.follow)


async def _list(client: Client, options: argparse.Namespace) -> None:
    runs = await client.runs(workflow=options.workflow, status=options.status, limit=options.limit)
    if options.json:
        print(_json([_run_data(run) for run in runs]))
    elif runs:
        for line in table([HEADS, *(_cells(run) for run in runs)]):
            print(line)
    else:
        print("no matching runs", file=sys.stderr)


async def _get(client: Client, options: argparse.Namespace) -> None:
    handle = client.handle(options.run)
    run, why, overview = await handle.info(), await handle.why(), await _overview(handle)
    data = {
        **_run_data(run),
        **overview,
        "input": _read(run.input),
        "output": _read(run.output),
        "error": _read(run.error),
        "why": {"code": why.code, "text": why.text, "until": time_text(why.until)},
    }
    if options.json:
        print(_json(data))
        return
    data["why"] = why.text
    for name, value in data.items():
        if value not in (None, "", {}, False):
            print(f"{name:<12}{value if isinstance(value, str) else _json(value)}")


async def _overview(handle: RunHandle[Any]) -> dict[str, Any]:
    """Time and steps; nothing if the log cannot be read, which `why` explains."""
    try:
        overview = await handle.overview()
    except LogDamaged:
        return {}
    return {
        "elapsed": round(overview.elapsed, 3),
        "active": round(overview.active, 3),
        "steps": overview.steps,
        "suspended_at": time_text(overview.suspended_at),
    }


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows as columns wide enough for their cells: nothing is cut off."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [zip(row, widths, strict=True) for row in rows]
    return ["  ".join(f"{cell:<{width}}" for cell, width in row).rstrip() for row in padded]


def _cells(run: RunRow) -> tuple[str, ...]:
    error = _read(run.error) or {}
    where = " ".join(str(error.get("message") or run.where_at).split())
    workflow = f"{run.workflow}@{run.version}"
    return (run.status.value, run.id, workflow, run.key, str(time_text(run.created_at)), where)


def _run_data(run: RunRow) -> dict[str, Any]:
    return {
        "id": run.id,
        "workflow": run.workflow,
        "version": run.version,
        "kind": run.kind,
        "status": run.status.value,
        "where_at": run.where_at,
        "number": run.number,
        "key": run.key,
        "parent": run.parent,
        "root": run.root,
        "tags": _read(run.tags),
        "trigger": run.trigger,
        "started_by": run.started_by,
        "created_at": time_text(run.created_at),
        "started_at": time_text(run.started_at),
        "ended_at": time_text(run.ended_at),
        "test": run.test,
    }


def _event_line(event: RunEvent) -> str:
    attempt = f" attempt {event.attempt}" if event.attempt > 1 else ""
    path = f" {event.path}" if event.path else ""
    return (
        f"{event.seq:>5}  {event.at:%Y-%m-%d %H:%M:%S.%f}  {event.kind}{path}{attempt}  {_json(event.data)}"
    )


def _event_data(event: RunEvent) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": event.at.isoformat(),
        "kind": event.kind,
        "path": event.path,
        "attempt": event.attempt,
        "data": event.data,
    }


def time_text(at: float | None) -> str | None:
    """Format a time to the second; the log has more digits."""
    try:
        return None if not at else f"{datetime.fromtimestamp(at, tz=UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (OverflowError, ValueError):  # NEVER is infinite
        return None


def _read(data: bytes | None) -> Any:
    return None if data is None else msgspec.json.decode(data)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
