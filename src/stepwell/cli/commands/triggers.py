"""`stepwell triggers`: workflows that start when something happens."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import By, Input, Limit, Reason, json_value
from stepwell.cli.output import Column
from stepwell.cli.session import CliSession
from stepwell.cli.text import time_text

if TYPE_CHECKING:
    from stepwell.client.event_triggers import EventTriggerInfo

commands = Commands("Start workflows when something happens.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the trigger.")]


@commands.add(
    "create",
    "stepwell triggers create ship ship_order --event order.paid",
    "stepwell triggers create big review --event order.paid --condition 'trigger.payload.new == true'",
    'stepwell triggers create inbox answer --source inbox --config \'{"folder": "support"}\' --every 1m',
)
async def create(
    session: CliSession,
    name: Name,
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="Workflow that each event starts.")],
    event: Annotated[str, typer.Option("--event", metavar="NAME", help="The broadcast event.")] = "",
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="Only events of this key.")] = "",
    condition: Annotated[
        str, typer.Option("--condition", metavar="EXPRESSION", help="Only events for which this is true.")
    ] = "",
    source: Annotated[
        str, typer.Option("--source", metavar="TYPE", help="Name of a source, instead of an event.")
    ] = "",
    config: Annotated[
        str | None, typer.Option("--config", metavar="JSON", help="Configuration of the source, as JSON.")
    ] = None,
    every: Annotated[
        str | None, typer.Option("--every", metavar="DURATION", help="How often the source is called.")
    ] = None,
    input: Input = None,
    by: By = "",
) -> None:
    """Create a trigger: a workflow that starts for each event, or for what a source finds."""
    arguments = () if input is None else (json_value("--input", input),)
    given = {"event": event, "key": key, "condition": condition, "source": source, "every": every}
    options: Any = {name: value for name, value in given.items() if value}
    if config is not None:
        options["config"] = json_value("--config", config)
    async with session.engine() as engine:
        info = await engine.triggers.create(name, workflow, *arguments, **options, by=by or session.user)
    if session.out.as_json:
        session.out.json(trigger_data(info))
    else:
        session.out.say(f"{info.name} starts {info.workflow} {_cause(info)}")


@commands.add("list", "stepwell triggers list", "stepwell triggers list --json | jq '.[].refused_reason'")
async def list_(session: CliSession, limit: Limit = 100) -> None:
    """List the triggers of events and sources by name."""
    async with session.client() as client:
        infos = await client.triggers.list(limit=max(1, limit))
    if session.out.as_json:
        session.out.json([trigger_data(info) for info in infos])
        return
    heads = [
        Column("NAME", lambda info: str(info.name), share=1),
        Column("STARTS", lambda info: str(info.workflow), share=1),
        Column("WHEN", _cause, share=2),
        Column(
            "STATE",
            lambda info: "paused" if info.paused else "failing" if info.failures else "open",
            style=lambda info: "yellow" if info.paused or info.failures else "",
        ),
        Column(
            "REFUSED", lambda info: str(info.refused), style=lambda info: "yellow" if info.refused else ""
        ),
        Column("REASON", lambda info: str(info.refused_reason or info.error), wide=True),
    ]
    empty = "there are no triggers; create one: stepwell triggers create NAME WORKFLOW --event EVENT"
    session.out.table(heads, infos, empty=empty)


@commands.add("delete", "stepwell triggers delete ship")
async def delete(session: CliSession, name: Name, by: By = "") -> int:
    """Delete a trigger; the runs that it started continue."""
    async with session.client() as client:
        done = await client.triggers.delete(name, by=by or session.user)
    return session.out.deleted(name, done, names="stepwell triggers list")


@commands.add("pause", "stepwell triggers pause ship --reason 'the warehouse moves'")
async def pause(session: CliSession, name: Name, reason: Reason = "", by: By = "") -> None:
    """Pause a trigger: it starts nothing until it is resumed."""
    async with session.client() as client:
        done = await client.triggers.pause(name, by=by or session.user, reason=reason)
    session.out.changed(name, done, "is paused", "was paused before")


@commands.add("resume", "stepwell triggers resume ship")
async def resume(session: CliSession, name: Name, by: By = "") -> None:
    """Resume a trigger."""
    async with session.client() as client:
        done = await client.triggers.resume(name, by=by or session.user)
    session.out.changed(name, done, "is resumed", "was not paused")


def _cause(info: EventTriggerInfo) -> str:
    cause = f"at event {info.event}" if info.event else f"by source {info.source}"
    key = f" with key {info.key}" if info.key else ""
    return cause + key + (f" if {info.condition}" if info.condition else "")


def trigger_data(info: EventTriggerInfo) -> dict[str, Any]:
    times = ("refused_at", "looked_at", "next_at", "created_at")
    return {**asdict(info), **{name: time_text(getattr(info, name)) for name in times}}
