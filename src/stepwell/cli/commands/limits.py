"""`stepwell limits`: how many runs may be active at once, and how many may be started in a period."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import By
from stepwell.cli.output import Column
from stepwell.cli.session import CliSession

commands = Commands("List, set and drop limits on concurrent runs, and on starts.")
Kind = Annotated[str, typer.Argument(metavar="KIND", help="workspace, workflow, queue or key.")]
Per = Annotated[str, typer.Argument(metavar="PER", help="workflow or user.")]
Seconds = Annotated[str, typer.Option("--within", metavar="DURATION", help="Length of time, such as 1h.")]
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
    """Set how many runs of a workflow, queue, workspace or limit key may be active at once."""
    scope: Any = kind
    how: Any = hold
    async with session.client(payloads=False) as client:
        await client.set_limit(scope, name, limit, hold=how, by=by or session.user)
    if session.out.as_json:
        session.out.json({"kind": kind, "name": name, "limit": limit, "hold": hold})
    else:
        runs = "1 run" if limit == 1 else f"{limit} runs"
        session.out.say(f"at most {runs} of {kind} {name}, from the next claim on")


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


@commands.add("rates", "stepwell limits rates")
async def rates(session: CliSession) -> None:
    """List the start rates that are set in the database."""
    async with session.client(payloads=False) as client:
        listed = await client.start_rates()
    if session.out.as_json:
        session.out.json(listed)
        return
    heads = [
        Column("PER", lambda rate: str(rate.per)),
        Column("STARTS", lambda rate: "any" if rate.limit is None else str(rate.limit)),
        Column("WITHIN", lambda rate: f"{rate.seconds:g} s"),
        Column("BY", lambda rate: str(rate.by)),
    ]
    session.out.table(heads, listed, empty="no start rates; set one: stepwell limits set-rate user 60")


@commands.add(
    "set-rate", "stepwell limits set-rate user 60", "stepwell limits set-rate workflow 1000 --within 1h"
)
async def set_rate(
    session: CliSession,
    per: Per,
    limit: Annotated[int, typer.Argument(metavar="N", help="Most starts.", min=1)],
    within: Seconds = "60s",
    by: By = "",
) -> None:
    """Set how many runs may be started in a period, per workflow or per user, in all workspaces."""
    kind, length = _rate(per, within)
    async with session.client(payloads=False) as client:
        await client.set_start_rate(kind, limit, seconds=length, by=by or session.user)
    if session.out.as_json:
        session.out.json({"per": per, "limit": limit, "seconds": length})
    else:
        session.out.say(f"at most {limit} starts per {per} in {length:g} s; servers follow within 5 s")


@commands.add("drop-rate", "stepwell limits drop-rate user", "stepwell limits drop-rate workflow --within 1h")
async def drop_rate(session: CliSession, per: Per, within: Seconds = "60s", by: By = "") -> None:
    """Remove a start rate; those that servers were given apply again."""
    kind, length = _rate(per, within)
    async with session.client(payloads=False) as client:
        dropped = await client.drop_start_rate(kind, seconds=length, by=by or session.user)
    if session.out.as_json:
        session.out.json({"per": per, "seconds": length, "dropped": dropped})
    else:
        session.out.say(
            f"{'dropped the' if dropped else 'there was no'} start rate per {per} in {length:g} s"
        )


def _rate(per: str, within: str) -> tuple[Any, float]:
    from stepwell.domain.duration import seconds

    return per, seconds(within, name="--within")
