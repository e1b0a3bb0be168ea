"""`stepwell doctor`: what is wrong with this machine, this database or its workers, and what to do next."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwell.cli.command import Commands
from stepwell.cli.commands.workers import queue_rows, worker_rows
from stepwell.cli.session import CliSession
from stepwell.cli.text import MARKS, duration_text
from stepwell.errors import StepwellError

if TYPE_CHECKING:
    from stepwell.client import Client

commands = Commands()
_PORT = 8710
_SKEW = 5.0  # seconds; with clocks further apart, times in the log are confusing
_PENDING = 200  # runs to examine
_STYLE = {"ok": ("completed", "green"), "warning": ("retrying", "yellow"), "problem": ("failed", "red")}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. A problem or warning has a next step."""

    check: str
    state: str  # ok | warning | problem
    text: str
    next: str = ""


@commands.add("doctor", "stepwell doctor", "stepwell doctor --database postgresql://localhost/app --json")
async def doctor(session: CliSession) -> int:
    """Check Python, the database, its workers and its clock. The exit code is 1 if something is broken."""
    findings = [finding async for finding in _findings(session)]
    if session.out.as_json:
        session.out.json([asdict(finding) for finding in findings])
    else:
        width = max(len(finding.check) for finding in findings)
        for finding in findings:
            mark, style = _STYLE[finding.state]
            session.out.line(f"{MARKS[mark]} {finding.check:<{width}}  {finding.text}", style)
            if finding.next:
                session.out.line(f"  {'':<{width}}  → {finding.next}")
    return 1 if any(finding.state == "problem" for finding in findings) else 0


async def _findings(session: CliSession) -> AsyncIterator[Finding]:
    for finding in _machine():
        yield finding
    if not session.named and not session.exists:
        yield Finding(
            "database",
            "warning",
            f"there is no {session.database} here",
            "stepwell init, or name one: --database",
        )
        return
    try:
        async with session.client() as client:
            async for finding in _database(session, client):
                yield finding
    except StepwellError as error:
        yield Finding(
            "database", "problem", f"{error.message} [{error.code}]", error.hint or "see docs/errors.md#codes"
        )


# This machine


def _machine() -> Iterator[Finding]:
    yield Finding("python", "ok", ".".join(map(str, sys.version_info[:3])))
    yield _sqlite()
    yield _extra("postgresql", "asyncpg", "postgres")
    yield _extra("encryption", "cryptography", "encryption")
    yield _sandbox()
    if os.access(".", os.W_OK):
        yield Finding("folder", "ok", f"{Path.cwd()} is writable")
    else:
        yield Finding(
            "folder", "warning", f"{Path.cwd()} is read-only", "stepwell run and dev need --database FILE"
        )
    with socket.socket() as probe:
        taken = probe.connect_ex(("127.0.0.1", _PORT)) == 0
    text = "is in use; stepwell serve takes the next free one" if taken else "is free"
    yield Finding("port", "ok", f"{_PORT} {text}")


def _sqlite() -> Finding:
    try:
        from importlib.metadata import version

        return Finding("sqlite", "ok", f"apsw {version('apsw')}")
    except Exception as error:
        return Finding(
            "sqlite", "problem", f"apsw cannot be used: {error}", "pip install --force-reinstall apsw"
        )


def _extra(check: str, module: str, extra: str) -> Finding:
    from importlib.util import find_spec

    if find_spec(module) is not None:
        return Finding(check, "ok", f"{module} is installed")
    return Finding(check, "ok", f"not installed; if you need it: pip install 'stepwell[{extra}]'")


def _sandbox() -> Finding:
    from stepwell.sandbox.code_sandbox import is_installed
    from stepwell.sandbox.probe import PROBE

    if not (is_installed("javascript") and is_installed("python")):
        return Finding("sandbox", "ok", "not installed; if graphs run code: pip install 'stepwell[code]'")
    reach = PROBE.tried()
    if reach.safe:
        return Finding("sandbox", "ok", "code of graphs reaches no file, network or process")
    return Finding(
        "sandbox",
        "warning",
        f"code that leaves its interpreter would reach {', '.join(reach.parts)}; "
        "with several workspaces code nodes are refused",
        "install bubblewrap, and allow user namespaces",
    )


# The database


async def _database(session: CliSession, client: Client) -> AsyncIterator[Finding]:
    from stepwell.cli.session import redacted

    where = redacted(session.database).partition("?")[0]  # without a launch token
    yield Finding(
        "database", "ok", f"{where} {'answers' if session.remote else 'opens, and its schema is current'}"
    )
    yield await _clock(session, client)
    alive = [row for row in await worker_rows(session, client) if row["alive"]]
    queues = await queue_rows(session, client)
    if alive:
        yield Finding(
            "workers", "ok", f"{len(alive)} alive: {', '.join(str(row['name']) for row in alive[:5])}"
        )
    elif any(row["ready"] or row["waiting"] or row["active"] for row in queues):
        yield Finding(
            "workers", "problem", "no worker is alive, and runs wait for one", session.command("worker FILE")
        )
    else:
        yield Finding("workers", "warning", "no worker is alive", session.command("worker FILE"))
    if alive:
        for finding in _lonely(session, queues):
            yield finding
        yield await _versions(session, client, alive)


async def _clock(session: CliSession, client: Client) -> Finding:
    """Compare the clock of this machine with that of the database, or of the server before it."""
    from stepwell.system import SystemClock

    other = "server" if session.remote else "database"
    before = SystemClock.time()
    now: float | None = await (
        client.connection.server_time() if session.remote else session.now(client)  # type: ignore[attr-defined]
    )
    if now is None:
        return Finding("clock", "ok", "the server does not say its time")
    skew = max(before - now, now - SystemClock.time(), 0.0)
    if skew <= _SKEW:
        return Finding("clock", "ok", f"agrees with the {other}'s")
    return Finding(
        "clock",
        "warning",
        f"this clock and the {other}'s differ by {duration_text(skew)}",
        "set the time of this machine, such as with systemctl restart systemd-timesyncd",
    )


def _lonely(session: CliSession, queues: list[dict[str, Any]]) -> Iterator[Finding]:
    """Find queues that have runs but no worker."""
    lonely = [row for row in queues if row["ready"] and not row["workers"]]
    for row in lonely:
        yield Finding(
            "queues",
            "problem",
            f"{_runs(row['ready'])} on queue {row['name']}, which no worker serves",
            session.command(f"worker FILE --queue {row['name']}"),
        )
    if not lonely:
        yield Finding("queues", "ok", "every queue with runs has a worker")


async def _versions(session: CliSession, client: Client, workers: list[dict[str, Any]]) -> Finding:
    """Find waiting runs whose version no worker has. Graphs that travel with their run need none."""
    has = {name for row in workers for name in row["workflows"]}
    missing: dict[str, int] = {}
    for run in await client.runs(status="pending", limit=_PENDING):
        name = f"{run.workflow}@{run.version}"
        if name not in has and run.kind != "graph":
            missing[name] = missing.get(name, 0) + 1
    if not missing:
        return Finding("versions", "ok", "a worker has the version of every waiting run")
    counts = ", ".join(f"{_runs(count)} of {name}" for name, count in missing.items())
    return Finding(
        "versions",
        "problem",
        f"no worker has the version of {counts}",
        f"start a worker with it; {session.command('check FILE')} says what fits your code",
    )


def _runs(count: int) -> str:
    more = " or more" if count >= _PENDING else ""
    return f"{count}{more} run{'s' if count != 1 else ''}"
