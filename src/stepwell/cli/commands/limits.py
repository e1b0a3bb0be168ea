"""`stepwell limits list | set | drop`: how many runs may be active at once."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import By
from stepwell.cli.output import Column
from stepwell.cli.session import CliSession

commands = Commands("List, set and drop limits on concurrent runs.")
Kind = Annotated[str, typer.Argument(metavar="KIND", help="workspace, workflow, queue or key.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the workflow, queue or limit key.")]


@commands.add("list", "stepwell limits list")
async def list_(session: CliSession) -> None:
    """List the limits of this workspace and of queues."""
    async with session.client(payloads=False) as client:
        limits = await client.limits()
    if session.out.as_json:
        session.out.json(limits)
        return
    heads = [
        Column("KIND", lambda limit: str(limit.kind)),
        Column("NAME", lambda limit: str(limit.name or limit.workspace), share=1),
        Column("LIMIT", lambda limit: "none" if limit.limit is None else str(limit.limit)),
        Column("HOLD", lambda limit: str(limit.hold)),
        Column("BY", lambda limit: str(limit.by)),
    ]
    session.out.table(heads, limits, empty="no limits; set one: stepwell limits set workflow NAME 10")


@commands.add("set", "stepwell limits set workflow fulfil 10", "stepwell limits set queue gpu 2 --hold run")
async def set_(
    session: CliSession,
    kind: Kind,
    name: Name,
    limit: Annotated[int, typer.Argument(metavar="N", help="Most runs at once.", min=0)],
    hold: Annotated[
        str,
        typer.Option(
            "--hold", metavar="WORD", help="active: runs that a worker has; run: from start to end."
        ),
    ] = "active",
    by: By = "",
) -> None:
    """Let at most N runs of a workflow, queue, workspace or limit key be active."""
    scope: Any = kind
    how: Any = hold
    async with session.client(payloads=False) as client:
        await client.set_limit(scope, name, limit, hold=how, by=by or session.user)
    if session.out.as_json:
        session.out.json({"kind": kind, "name": name, "limit": limit, "hold": hold})
    else:
        session.out.say(f"at most {limit} runs of {kind} {name}, from the next claim on")


@commands.add("drop", "stepwell limits drop workflow fulfil")
async def drop(session: CliSession, kind: Kind, name: Name, by: By = "") -> None:
    """Remove a limit; limits that runs were started with apply again."""
    scope: Any = kind
    async with session.client(payloads=False) as client:
        dropped = await client.drop_limit(scope, name, by=by or session.user)
    if session.out.as_json:
        session.out.json({"kind": kind, "name": name, "dropped": dropped})
    else:
        session.out.say(f"{kind} {name} {'has no limit now' if dropped else 'had no limit'}")
