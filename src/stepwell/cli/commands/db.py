"""`stepwell db info | check | upgrade | backup | prune`: the database itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import Yes
from stepwell.cli.session import CliSession, redacted
from stepwell.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwell.client.database import DatabaseInfo, Pruned
    from stepwell.store.maintenance import StoreFault

commands = Commands("Inspect, check, upgrade, back up and prune a database.")


@commands.add("info", "stepwell db info", "stepwell db info --json")
async def info(session: CliSession) -> None:
    """Show the version of its tables, its size, and how many rows it has."""
    async with session.client(payloads=False) as client:
        about = await _info(session, client)
    data = {"database": redacted(session.database), **about._asdict()}
    shown = {"bytes": f"{about.bytes:,}", "encoded": "yes" if about.encoded else "no", "counts": ""}
    session.out.fields(data, shown=shown)
    if not session.out.as_json:
        for name, count in about.counts.items():
            session.out.line(f"  {name:<20}{count:>14,}")


async def _info(session: CliSession, client: Any) -> DatabaseInfo:
    from stepwell.client import database
    from stepwell.http_client import database as remote

    return await (remote.info(client) if session.remote else database.info(client.store))


async def _faults(session: CliSession, client: Any) -> Sequence[StoreFault]:
    from stepwell.client import database
    from stepwell.http_client import database as remote

    return await (remote.check(client) if session.remote else database.check(client.store))


@commands.add("check", "stepwell db check", "stepwell db check --database postgresql://localhost/app --json")
async def check(session: CliSession) -> int:
    """Look for damage: broken pages, gaps in logs, tickets that do not match their runs.

    The exit code is 1 if there is any.
    """
    async with session.client(payloads=False) as client:
        faults = await _faults(session, client)
    if session.out.as_json:
        session.out.json({"sound": not faults, "faults": [fault._asdict() for fault in faults]})
    else:
        for fault in faults:
            session.out.line(f"{fault.run or 'database'}: {fault.text}", "red")
        session.out.say(f"{len(faults)} faults; restore a backup" if faults else "the database is sound")
    return 1 if faults else 0


@commands.add("upgrade", "stepwell db upgrade --database postgresql://localhost/app")
async def upgrade(session: CliSession) -> None:
    """Apply missing migrations. Every engine does the same when it opens a database."""
    from stepwell.store import open as stores

    session.need_database("db upgrade")
    session.must_exist()
    upgraded = await stores.upgrade(session.database)
    if session.out.as_json:
        session.out.json(upgraded._asdict())
    elif upgraded.before == upgraded.after:
        session.out.say(f"its tables are current: version {upgraded.after}")
    else:
        session.out.say(f"upgraded its tables from version {upgraded.before} to {upgraded.after}")


@commands.add("backup", "stepwell db backup app-backup.db --database app.db")
async def backup(
    session: CliSession,
    file: Annotated[str, typer.Argument(metavar="FILE", help="File to write; it must not exist.")],
) -> None:
    """Copy a SQLite file while it is in use. PostgreSQL has tools of its own, such as pg_dump."""
    from stepwell.client import database

    session.need_database("db backup")
    if Path(file).exists():  # noqa: ASYNC240  # once, before anything else happens
        raise Conflict(f"{file} exists; nothing was written", hint="name another file")
    async with session.client(payloads=False) as client:
        size = await database.back_up(client.store, file)
    if session.out.as_json:
        session.out.json({"file": file, "bytes": size})
    else:
        session.out.say(f"wrote {file}: {size:,} bytes")


@commands.add(
    "prune", "stepwell db prune --older-than 30d", "stepwell db prune --older-than 90d --yes --json"
)
async def prune(
    session: CliSession,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="DURATION", help="Age of the end of the runs, such as 30d.")
    ],
    yes: Yes = False,
) -> None:
    """Remove runs that ended that long ago, with their logs, in all workspaces. This cannot be undone."""
    from stepwell.client import database
    from stepwell.domain.duration import seconds

    session.need_database("db prune")
    seconds(older_than, name="--older-than")
    async with session.client(payloads=False) as client:
        question = f"Remove runs of {redacted(session.database)} that ended more than {older_than} ago?"
        if not session.out.confirm(question, yes=yes):
            session.out.say("nothing was changed")
            return
        total = (await database.info(client.store)).counts.get("runs", 0)
        done = 0
        with session.out.progress("runs", total) as advance:

            def report(pruned: Pruned) -> None:
                nonlocal done
                advance(pruned.runs - done)
                done = pruned.runs

            removed = await database.prune(client.store, older_than=older_than, progress=report)
    if session.out.as_json:
        session.out.json(removed._asdict())
    else:
        session.out.say(f"removed {removed.runs:,} runs and {removed.events:,} broadcast events")
