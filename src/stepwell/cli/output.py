"""`stepwell runs list | get | events`: what the command line shows of runs, for people or as JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from stepwell.client import Client
from stepwell.client.run_event import RunEvent
from stepwell.domain.commit import RunRow

HEADS = ("STATUS", "RUN", "WORKFLOW", "KEY", "CREATED", "WHERE")


async def show(client: Client, given: argparse.Namespace) -> None:
    await _show(client, given)
    sys.stdout.flush()  # here, where a reader who has gone is no trouble


async def _show(client: Client, given: argparse.Namespace) -> None:
    if given.what == "list":
        await _list(client, given)
    elif given.what == "get":
        await _get(client, given)
    else:
        async for event in client.handle(given.run).events(follow=given.follow):
            print(_json(_plain_event(event)) if given.json else _event_line(event), flush=given.follow)


async def _list(client: Client, given: argparse.Namespace) -> None:
    found = await client.runs(workflow=given.workflow, status=given.status, limit=given.limit)
    if given.json:
        print(_json([_plain(run) for run in found]))
    elif found:
        for line in table([HEADS, *(_cells(run) for run in found)]):
            print(line)
    else:
        print("no such runs", file=sys.stderr)


async def _get(client: Client, given: argparse.Namespace) -> None:
    handle = client.handle(given.run)
    run, why = await handle.info(), await handle.why()
    whole = {
        **_plain(run),
        "input": _read(run.input),
        "output": _read(run.output),
        "error": _read(run.error),
        "why": {"code": why.code, "text": why.text, "until": _time(why.until)},
    }
    if given.json:
        print(_json(whole))
        return
    whole["why"] = why.text
    for name, value in whole.items():
        if value not in (None, "", {}, False):
            print(f"{name:<12}{value if isinstance(value, str) else _json(value)}")


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """As wide as what is in it: nothing is ever cut off."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [zip(row, widths, strict=True) for row in rows]
    return ["  ".join(f"{cell:<{width}}" for cell, width in row).rstrip() for row in padded]


def _cells(run: RunRow) -> tuple[str, ...]:
    error = _read(run.error) or {}
    where = " ".join(str(error.get("message") or run.where_at).split())
    workflow = f"{run.workflow}@{run.version}"
    return (run.status.value, run.id, workflow, run.key, str(_time(run.created_at)), where)


def _plain(run: RunRow) -> dict[str, Any]:
    return {
        "id": run.id,
        "workflow": run.workflow,
        "version": run.version,
        "kind": run.kind,
        "status": run.status.value,
        "where": run.where_at,
        "key": run.key,
        "parent": run.parent,
        "root": run.root,
        "tags": _read(run.tags),
        "trigger": run.trigger,
        "created_at": _time(run.created_at),
        "started_at": _time(run.started_at),
        "ended_at": _time(run.ended_at),
        "test": run.test,
    }


def _event_line(event: RunEvent) -> str:
    attempt = f" attempt {event.attempt}" if event.attempt > 1 else ""
    path = f" {event.path}" if event.path else ""
    return (
        f"{event.seq:>5}  {event.at:%Y-%m-%d %H:%M:%S.%f}  {event.kind}{path}{attempt}  {_json(event.data)}"
    )


def _plain_event(event: RunEvent) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": event.at.isoformat(),
        "kind": event.kind,
        "path": event.path,
        "attempt": event.attempt,
        "data": event.data,
    }


def _time(at: float | None) -> str | None:
    """To the second: what is finer is in the log."""
    try:
        return None if not at else f"{datetime.fromtimestamp(at, tz=UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (OverflowError, ValueError):  # never
        return None


def _read(data: bytes | None) -> Any:
    return None if data is None else msgspec.json.decode(data)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
