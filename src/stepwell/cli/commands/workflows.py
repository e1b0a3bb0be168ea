"""`stepwell workflows`: stored workflows, saved graphs, and the switch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import By, Reason, Workflow, json_value
from stepwell.cli.output import Column, encoded
from stepwell.cli.session import CliSession
from stepwell.cli.text import short_time, time_text
from stepwell.errors import InvalidRequest, UnknownWorkflow, excerpt

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
        now = await session.now(client)
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


@commands.add("versions", "stepwell workflows versions fulfil")
async def versions(session: CliSession, workflow: Workflow) -> None:
    """List the stored versions of a workflow, oldest first."""
    async with session.client() as client:
        definitions = await client.versions(workflow)
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


# Drawings and saved graphs


@commands.add(
    "draw",
    "stepwell workflows draw review > review.mmd",
    "stepwell workflows draw review --format svg > review.svg",
    "stepwell workflows draw review --source flows.py",
)
async def draw(
    session: CliSession,
    workflow: Workflow,
    format: Annotated[
        str, typer.Option("--format", "-f", metavar="FORMAT", help="mermaid, svg or json.")
    ] = "mermaid",
    source: Annotated[
        str, typer.Option("--source", metavar="FILE", help="Draw it from this file instead.")
    ] = "",
    version: Annotated[
        str, typer.Option("--version", metavar="N", help="Version; by default the latest.")
    ] = "",
) -> None:
    """Draw a graph or a machine."""
    if format not in ("mermaid", "svg", "json"):
        raise InvalidRequest(f"the format is {excerpt(format)}", hint="use mermaid, svg or json")
    if source:
        text = _drawn_source(source, workflow, format)
    else:
        async with session.client() as client:
            text = _drawn(await client.definition(workflow, version), format)
    if session.out.as_json and format != "json":
        session.out.json({"workflow": workflow, "format": format, "drawing": text})
    else:
        print(text.rstrip("\n"))


def _drawn_source(source: str, workflow: str, format: str) -> str:
    from stepwell.cli.source import collect

    for program in collect(source).workflows:
        if program.definition.name == workflow:
            draw = getattr(program, "drawing", None)
            return (
                str(draw(format))
                if draw is not None and format != "json"
                else _drawn(program.definition, format)
            )
    raise UnknownWorkflow(f"{source} has no workflow {excerpt(workflow)}", hint="name one that it defines")


def _drawn(definition: Definition, format: Any) -> str:
    from stepwell.authoring.drawing import drawn

    return definition.body.decode() if format == "json" else drawn(definition, format)


@commands.add(
    "validate", "stepwell workflows validate review.json", "stepwell workflows validate - < review.json"
)
async def validate(
    session: CliSession,
    file: Graph,
    source: Annotated[
        str,
        typer.Option("--source", metavar="FILE", help="File with the custom nodes and steps of the graph."),
    ] = "",
) -> int:
    """Check a graph without saving it, and list all its problems at once.

    The exit code is 2 if there are any.
    """
    from stepwell.authoring.graphs.workflow import GraphTools

    tools = GraphTools(*_parts(source))
    body = graph_of(file)
    problems = [problem.as_dict() for problem in tools.check(body)]
    warnings = [] if problems else [warning.as_dict() for warning in tools.warnings(body)]
    if session.out.as_json:
        session.out.json({"valid": not problems, "problems": problems, "warnings": warnings})
    else:
        for problem in [*problems, *warnings]:
            session.out.line(_problem_line(problem), "red" if problems else "yellow")
        what = f"{len(problems)} problems" if problems else f"valid, {len(warnings)} warnings"
        session.out.say(f"{file}: {what}")
    return 2 if problems else 0


def _parts(source: str) -> tuple[list[Any], dict[str, Any]]:
    if not source:
        return [], {}
    from stepwell.cli.source import collect

    programs = collect(source)
    return programs.nodes, {step.spec.name: step.spec for step in programs.steps}


def _problem_line(problem: dict[str, Any]) -> str:
    where = " ".join(str(problem[name]) for name in ("node", "edge", "field") if problem.get(name))
    text = f"{problem['code']}  {where + ': ' if where else ''}{problem['message']}"
    return text + (f"; {problem['suggestion']}" if problem.get("suggestion") else "")


def graph_of(file: str) -> Any:
    """Return the graph of a file, or of stdin."""
    return json_value("FILE", "-") if file == "-" else file


@commands.add("save", "stepwell workflows save review.json", "stepwell workflows save review.json --publish")
async def save(
    session: CliSession,
    file: Graph,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name; else the one in the graph, or of its file.")
    ] = "",
    publish: Annotated[
        bool,
        typer.Option(
            "--publish", help="Make it a version that runs can be started with.", show_default=False
        ),
    ] = False,
    by: By = "",
) -> None:
    """Save a graph as a draft, and publish it."""
    from stepwell.authoring.graphs.workflow import read_graph

    body = json_value("FILE", "-") if file == "-" else read_graph(file)
    who = by or session.user
    async with session.engine() as engine:
        if not name and isinstance(body, dict):
            name = str(body.get("name") or ("" if file == "-" else Path(file).stem))
        saved_names = [saved.name for saved in await engine.library.list()]
        if name in saved_names:
            saved = await engine.library.update(name, body, by=who)
        else:
            saved = await engine.library.create(body, name=name, by=who)
        version = await engine.library.publish(saved.name, by=who) if publish else None
    for warning in saved.warnings:
        session.out.say(f"warning: {warning}", "yellow")
    if session.out.as_json:
        session.out.json(
            {"name": saved.name, "hash": saved.hash, "version": version, "warnings": saved.warnings}
        )
    elif version is not None:
        session.out.say(f"published {saved.name} version {version}")
    else:
        session.out.say(f"saved a draft of {saved.name}; publish it: stepwell workflows publish {saved.name}")


@commands.add("publish", "stepwell workflows publish review")
async def publish(session: CliSession, workflow: Workflow, by: By = "") -> None:
    """Publish the draft of a saved graph as a version. An unchanged draft makes no new one."""
    async with session.engine() as engine:
        version = await engine.library.publish(workflow, by=by or session.user)
    if session.out.as_json:
        session.out.json({"name": workflow, "version": version})
    else:
        session.out.say(f"{workflow} version {version} is published")


@commands.add("diff", "stepwell workflows diff review", "stepwell workflows diff review --old 1 --new 2")
async def diff(
    session: CliSession,
    workflow: Workflow,
    old: Annotated[
        str, typer.Option("--old", metavar="VERSION", help="draft, published or a number.")
    ] = "published",
    new: Annotated[
        str, typer.Option("--new", metavar="VERSION", help="draft, published or a number.")
    ] = "draft",
) -> None:
    """Compare two versions of a saved graph by node and field."""
    async with session.engine() as engine:
        changes = await engine.library.diff(workflow, old, new)
    if session.out.as_json:
        session.out.json(changes)
        return
    lines = list(_changes(changes))
    for sign, text in lines:
        session.out.line(f"{sign} {text}", {"+": "green", "-": "red"}.get(sign, "yellow"))
    if not lines:
        session.out.say(f"{old} and {new} of {workflow} are the same")


def _changes(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Walk a difference and yield what was added, removed and changed, by path."""
    if not isinstance(value, dict):
        if value not in (None, [], {}, False):
            yield "~", f"{path}: {encoded(value)}"
        return
    for name, part in value.items():
        if name in ("added", "removed") and part:
            for item in part if isinstance(part, list) else [part]:
                yield (
                    ("+" if name == "added" else "-"),
                    f"{path} {item if isinstance(item, str) else encoded(item)}",
                )
        else:
            yield from _changes(part, f"{path}.{name}" if path else str(name))
