"""`stepwell alerts set | list | delete`: what the workers look out for, and which incidents are open."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import By
from stepwell.cli.output import Column
from stepwell.cli.session import CliSession
from stepwell.cli.text import short_time, time_text
from stepwell.errors import StepwellError, UnknownWorkflow

if TYPE_CHECKING:
    from stepwell.client.alerts import AlertInfo

commands = Commands("Set, list and delete alerts.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the alert.")]


@commands.add(
    "set",
    "stepwell alerts set failures failed --channel ops",
    "stepwell alerts set workers no_worker --queue default --after 2m --channel ops --to ops@example.com",
)
async def set_(
    session: CliSession,
    name: Name,
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="failed, stuck, overdue, no_worker or full_queue.")
    ],
    workflow: Annotated[
        str, typer.Option("--workflow", "-w", metavar="NAME", help="Only runs of this workflow.")
    ] = "",
    queue: Annotated[
        str, typer.Option("--queue", "-q", metavar="NAME", help="Queue, for no_worker and full_queue.")
    ] = "",
    after: Annotated[
        str,
        typer.Option(
            "--after",
            metavar="DURATION",
            help="How long it must last; of failed runs, how far back they count.",
        ),
    ] = "",
    at_least: Annotated[
        int, typer.Option("--at-least", metavar="N", help="How many runs it takes.", min=1)
    ] = 1,
    channel: Annotated[
        str,
        typer.Option("--channel", metavar="NAME", help="Channel of the reports; without one, metrics only."),
    ] = "",
    to: Annotated[
        list[str], typer.Option("--to", metavar="ADDRESS", help="Recipient; by default those of the channel.")
    ] = [],
    repeat: Annotated[
        str, typer.Option("--repeat", metavar="DURATION", help="How often it is reported again.")
    ] = "4h",
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="Time between checks.")] = "15s",
    paused: Annotated[
        bool, typer.Option("--paused", help="Do not check it now.", show_default=False)
    ] = False,
    by: By = "",
) -> None:
    """Create an alert, or replace the one of that name; its open incidents stay."""
    more: dict[str, Any] = {"after": after} if after else {}
    async with session.client(payloads=False) as client:
        info = await client.alerts.set(
            name,
            what,
            workflow=workflow,
            queue=queue,
            at_least=at_least,
            channel=channel,
            to=to,
            repeat=repeat,
            every=every,
            paused=paused,
            by=by or session.user,
            **more,
        )
        unknown = await _unknown(client, workflow) if workflow else ""
    if session.out.as_json:
        session.out.json(alert_data(info))
    else:
        session.out.say(
            f"{name} is set" + ("" if channel else "; without --channel it shows in metrics only")
        )
        if unknown:
            session.out.say(f"it finds nothing now: {unknown}")


@commands.add("list", "stepwell alerts list", "stepwell alerts list --json | jq '.[].incidents'")
async def list_(session: CliSession) -> None:
    """List the alerts by name, with their open incidents."""
    async with session.client(payloads=False) as client:
        alerts = await client.alerts.list()
        now = await session.now(client)
    if session.out.as_json:
        session.out.json([alert_data(info) for info in alerts])
        return
    heads = [
        Column("NAME", lambda info: str(info.name), share=1),
        Column("WHAT", lambda info: str(info.what)),
        Column("OF", lambda info: info.workflow or info.queue or "all", share=1),
        Column("CHANNEL", lambda info: info.channel or "metrics"),
        Column("OPEN", _open, lambda info: _open_short(info, now), share=1),
    ]
    session.out.table(
        heads,
        alerts,
        empty="there are no alerts; set one: stepwell alerts set failures failed --channel NAME",
    )


@commands.add("delete", "stepwell alerts delete failures")
async def delete(session: CliSession, name: Name, by: By = "") -> int:
    """Delete an alert; its open incidents are forgotten."""
    async with session.client(payloads=False) as client:
        done = await client.alerts.delete(name, by=by or session.user)
    return session.out.deleted(name, done, names="stepwell alerts list")


async def _unknown(client: Any, workflow: str) -> str:
    """Return why the workflow of an alert may be misspelt, or ''."""
    try:
        await client.definition(workflow)
    except UnknownWorkflow as error:
        return f"{error.message}; {error.hint}"
    except StepwellError:
        pass  # its definition is encrypted: it exists
    return ""


def _open(info: AlertInfo) -> str:
    if info.paused:
        return "paused"
    return ", ".join(f"{one.subject} since {time_text(one.since)}" for one in info.incidents)


def _open_short(info: AlertInfo, now: float) -> str:
    if info.paused:
        return "paused"
    return ", ".join(f"{one.subject} {short_time(one.since, now)}" for one in info.incidents)


def alert_data(info: AlertInfo) -> dict[str, Any]:
    """Return an alert as JSON shows it."""
    data = asdict(info)
    for incident in data["incidents"]:
        incident["since"] = time_text(incident["since"])
        incident["reported_at"] = time_text(incident["reported_at"])
    return {**data, "created_at": time_text(info.created_at)}
