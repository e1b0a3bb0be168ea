"""`stepwell workflows`: what the database knows of workflows; saved graphs; the switch."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import By, Reason, Workflow
from stepwell.cli.output import Column
from stepwell.cli.session import CliSession
from stepwell.cli.text import short_time, time_text
from stepwell.errors import UnknownWorkflow, excerpt

if TYPE_CHECKING:
    from stepwell.client.workflows import WorkflowInfo
    from stepwell.domain.commit import Definition

commands = Commands("List, draw, save and switch workflows.")
Graph = Annotated[str, typer.Argument(metavar="FILE", help="Graph as .json or .yaml; - is JSON on stdin.")]


@commands.add("list", "stepwell workflows list", "stepwell workflows list --json | jq -r '.[].name'")
async def list_(session: CliSession) -> None:
    """List the workflows by name."""
    async with session.client() as client:
        workflows = await client.workflows()
        now = await client.store.now()
    if session.out.as_json:
        session.out.json([_data(info) for info in workflows])
        return
    heads = [
        Column("STATE", _state, style=lambda info: "green" if info.enabled else "red"),
        Column("WORKFLOW", lambda info: f"{info.name}@{info.version}"),
        Column("KIND", lambda info: str(info.kind)),
        Column("TITLE", lambda info: str(info.title), share=1),
        Column(
            "CREATED",
            lambda info: time_text(info.created_at) or "",
            lambda info: short_time(info.created_at, now),
        ),
        Column("BY", lambda info: str(info.created_by)),
    ]
    session.out.table(
        heads, workflows, empty="no workflows; a worker stores those that it has: stepwell worker FILE"
    )


def _state(info: WorkflowInfo) -> str:
    return "enabled" if info.enabled else "disabled"


def _data(info: WorkflowInfo) -> dict[str, Any]:
    data = dataclasses.asdict(info)
    return data | {name: time_text(data[name]) for name in ("created_at", "switched_at")}


@commands.add("show", "stepwell workflows show fulfil", "stepwell workflows show fulfil --json")
async def show(session: CliSession, workflow: Workflow) -> None:
    """Show a workflow: its version, who created it, and whether it accepts new runs."""
    async with session.client() as client:
        named = {info.name: info for info in await client.workflows()}
    if workflow not in named:
        raise UnknownWorkflow(
            f"no workflow {excerpt(workflow)} is known", known=", ".join(sorted(named)) or "none"
        )
    session.out.fields(_data(named[workflow]))


async def _definitions(session: CliSession, workflow: str) -> list[Definition]:
    """Return the stored versions of a workflow, oldest first."""
    from stepwell.domain.suggest import did_you_mean

    async with session.client() as client:
        listed = await client.store.list_definitions(client.workspace)
    names = sorted({d.name for d in listed})
    definitions = [d for d in listed if d.name == workflow]
    if not definitions:
        hint = did_you_mean(workflow, names) or "see `stepwell workflows list`"
        raise UnknownWorkflow(f"no workflow {excerpt(workflow)} is known", hint=hint)
    return definitions


async def _definition(session: CliSession, workflow: str, version: str) -> Definition:
    definitions = await _definitions(session, workflow)
    if not version:
        return definitions[-1]
    for definition in definitions:
        if definition.version == version:
            return definition
    known = ", ".join(d.version for d in definitions)
    raise UnknownWorkflow(f"{workflow} has no version {excerpt(version)}", hint=f"it has: {known}")


@commands.add("versions", "stepwell workflows versions fulfil")
async def versions(session: CliSession, workflow: Workflow) -> None:
    """List the stored versions of a workflow, oldest first."""
    definitions = await _definitions(session, workflow)
    if session.out.as_json:
        session.out.json(
            [
                {
                    "name": d.name,
                    "version": d.version,
                    "kind": d.kind,
                    "hash": d.hash,
                    "created_at": time_text(d.created_at),
                    "created_by": d.created_by,
                }
                for d in definitions
            ]
        )
        return
    heads = [
        Column("VERSION", lambda d: str(d.version)),
        Column("KIND", lambda d: str(d.kind)),
        Column("HASH", lambda d: str(d.hash), lambda d: str(d.hash[:12])),
        Column("CREATED", lambda d: time_text(d.created_at) or ""),
        Column("BY", lambda d: str(d.created_by)),
    ]
    session.out.table(heads, definitions, empty="no versions")


@commands.add("disable", "stepwell workflows disable fulfil --reason 'warehouse is closed'")
async def disable(session: CliSession, workflow: Workflow, by: By = "", reason: Reason = "") -> None:
    """Refuse new runs of a workflow; its live runs continue."""
    async with session.client() as client:
        changed = await client.disable(workflow, by=by or session.user, reason=reason)
    _switched(session, workflow, "disabled", changed=changed)


@commands.add("enable", "stepwell workflows enable fulfil")
async def enable(session: CliSession, workflow: Workflow, by: By = "", reason: Reason = "") -> None:
    """Accept new runs of a workflow again."""
    async with session.client() as client:
        changed = await client.enable(workflow, by=by or session.user, reason=reason)
    _switched(session, workflow, "enabled", changed=changed)


def _switched(session: CliSession, workflow: str, state: str, *, changed: bool) -> None:
    if session.out.as_json:
        session.out.json({"name": workflow, "enabled": state == "enabled", "changed": changed})
    else:
        session.out.say(f"{workflow} is {'' if changed else 'already '}{state}")
