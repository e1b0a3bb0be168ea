"""`stepwell holds list | set | release`: stop workflows, queues or a workspace, and let them continue."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import By, Reason
from stepwell.cli.output import Column
from stepwell.cli.session import CliSession
from stepwell.cli.text import short_time, time_text

commands = Commands("Hold and release workflows, queues and the workspace.")
Kind = Annotated[str, typer.Argument(metavar="KIND", help="workflow, queue or workspace.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the workflow or queue.")]


@commands.add("list", "stepwell holds list")
async def list_(session: CliSession) -> None:
    """List the workflows and queues that are held, and the workspace if it is held."""
    async with session.client() as client:
        holds, now = await client.holds(), await session.now(client)
    if session.out.as_json:
        session.out.json(
            [
                {
                    "kind": hold.kind,
                    "name": hold.name,
                    "by": hold.by,
                    "at": time_text(hold.at),
                    "reason": hold.reason,
                }
                for hold in holds
            ]
        )
        return
    heads = [
        Column("KIND", lambda hold: str(hold.kind)),
        Column("NAME", lambda hold: str(hold.name)),
        Column("SINCE", lambda hold: time_text(hold.at) or "", lambda hold: short_time(hold.at, now)),
        Column("BY", lambda hold: str(hold.by)),
        Column("REASON", lambda hold: str(hold.reason), share=1),
    ]
    session.out.table(heads, holds, empty="nothing is held")


@commands.add(
    "set", "stepwell holds set workflow fulfil --reason 'bank is down'", "stepwell holds set workspace"
)
async def set_(session: CliSession, kind: Kind, name: Name = "", by: By = "", reason: Reason = "") -> None:
    """Hold a workflow, a queue or the workspace: active runs stop at their next step, new ones wait."""
    scope: Any = kind
    async with session.client() as client:
        changed = await client.hold(scope, name, by=by or session.user, reason=reason)
    _changed(session, kind, name, "held", changed=changed)


@commands.add("release", "stepwell holds release workflow fulfil")
async def release(session: CliSession, kind: Kind, name: Name = "", by: By = "", reason: Reason = "") -> None:
    """Let a held workflow, queue or workspace continue."""
    scope: Any = kind
    async with session.client() as client:
        changed = await client.release(scope, name, by=by or session.user, reason=reason)
    _changed(session, kind, name, "released", changed=changed)


def _changed(session: CliSession, kind: str, name: str, state: str, *, changed: bool) -> None:
    what = f"{kind} {name}".strip()
    if session.out.as_json:
        session.out.json({"kind": kind, "name": name, "state": state, "changed": changed})
    else:
        session.out.say(f"{what} is {state}" if changed else f"{what} was {state} before")
