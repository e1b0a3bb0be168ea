"""`stepwell run` and `stepwell watch`: start a workflow and follow it, or follow a run that exists."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.commands.run_control import Key, input_needed, input_of
from stepwell.cli.options import By, Input, Run
from stepwell.cli.output import encoded
from stepwell.cli.session import CliSession
from stepwell.errors import InvalidDefinition, InvalidRequest

if TYPE_CHECKING:
    from stepwell.app import Engine
    from stepwell.cli.source import Programs
    from stepwell.client import RunHandle

commands = Commands()
_SUFFIXES = (".py", ".json", ".yaml", ".yml")
_GRACE = 5.0  # seconds that steps get to finish after Ctrl-C
Timeout = Annotated[
    str,
    typer.Option("--timeout", metavar="DURATION", help="Stop waiting after this time; the run continues."),
]
ExitOnWait = Annotated[
    bool,
    typer.Option(
        "--exit-on-wait", help="End with code 9 when the run waits for somebody.", show_default=False
    ),
]


@commands.add(
    "run",
    "stepwell run flows.py:hello --input '\"Ada\"'",
    "stepwell run flows.py:fulfil -i id=42 --key order-42",
    "stepwell run fulfil --database app.db --detach",
    "stepwell run refund --manual -i order=o-1",
)
async def run(
    session: CliSession,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="FILE:NAME runs it here; NAME is started for the workers of the database."
        ),
    ],
    input: Input = None,
    fields: Annotated[
        list[str], typer.Option("-i", "--field", metavar="NAME=VALUE", help="Field of the input.")
    ] = [],
    key: Key = "",
    detach: Annotated[
        bool, typer.Option("--detach", help="Start it, print its id, and do not wait.", show_default=False)
    ] = False,
    timeout: Timeout = "",
    exit_on_wait: ExitOnWait = False,
    manual: Annotated[
        bool,
        typer.Option(
            "--manual", help="Start it by hand: the input fits the graph's form.", show_default=False
        ),
    ] = False,
    by: By = "",
) -> int:
    """Start a workflow and follow it: its steps on stderr, its result on stdout.

    FILE:NAME runs in this process. Ctrl-C detaches: the run is safe, and continues with the next worker.
    """
    given = input_of(input, fields)
    options: dict[str, Any] = {"key": key, "by": by or session.user}
    if manual:
        options["trigger"] = "manual"
    limit = _seconds(timeout)
    source, name = _parted(target)
    if not source:
        async with session.client() as client:
            with input_needed(given):
                handle = await client.start(name, *given, **options)
            return await _followed(session, handle, name, detach, limit, exit_on_wait, "the run continues")
    from stepwell.cli.source import collect

    known = shlex.quote(name) if name else "NAME"
    instead = f"start it there by its name: stepwell run {known}; or name a database: --database FILE"
    session.need_database(f"run {target}", instead=instead)
    programs = collect(source)
    name = _chosen(programs, source, name)
    session.create_own()
    how = f"the run is safe and continues with the next worker: {session.command(f'worker {source}')}"
    async with _engine(session, programs, detach=detach) as engine:
        with input_needed(given):
            handle = await engine.start(name, *given, **options)
        return await _followed(session, handle, name, detach, limit, exit_on_wait, how)


@commands.add("watch", "stepwell watch @last", "stepwell watch @last --json | jq .kind")
async def watch(
    session: CliSession, run: Run, timeout: Timeout = "", exit_on_wait: ExitOnWait = False
) -> int:
    """Follow a run until it ends. The exit code says how it ended.

    With --json it prints events, one a line.
    """
    limit = _seconds(timeout)
    async with session.handle(run) as handle:
        row = await handle.info()
        if session.out.as_json:
            return await _printed(session, handle, limit)
        name = f"{row.workflow}@{row.version}"
        return await _followed(session, handle, name, False, limit, exit_on_wait, "the run continues")


def _seconds(timeout: str) -> float | None:
    from stepwell.domain.duration import seconds

    return seconds(timeout, name="--timeout") if timeout else None


def _parted(target: str) -> tuple[str, str]:
    """Return the source and the name of the workflow. A target without a source is a name."""
    if target.endswith(_SUFFIXES):
        return target, ""
    source, _, name = target.rpartition(":")
    return source, name


def _chosen(programs: Programs, source: str, name: str) -> str:
    from stepwell.domain.suggest import did_you_mean

    names = list(dict.fromkeys(workflow.definition.name for workflow in programs.workflows))
    if not name and len(names) == 1:
        return names[0]
    if name in names:
        return name
    listed = ", ".join(names) or "none"
    if not name:
        raise InvalidRequest(
            f"{source} has {len(names)} workflows", hint=f"name one: {source}:NAME", known=listed
        )
    raise InvalidDefinition(
        f"{source} has no workflow {name!r}",
        hint=did_you_mean(name, names) or "name one of them",
        known=listed,
    )


def _engine(session: CliSession, programs: Programs, *, detach: bool) -> Engine:
    """Return an engine that runs these programs here, on all queues that they use."""
    from dataclasses import replace

    from stepwell.app import Engine
    from stepwell.settings import Settings

    settings = Settings.from_env()
    queues = {"default", *(workflow.options.queue for workflow in programs.workflows)}
    queues |= {step.spec.queue for step in programs.steps if step.spec.queue}
    return Engine(
        session.database,
        workflows=programs.workflows,
        steps=programs.steps,
        nodes=programs.nodes,
        sources=programs.sources,
        queues=sorted(queues),
        worker=not detach,
        codec=session.codec,
        settings=replace(settings, grace_seconds=min(_GRACE, settings.grace_seconds)),
        workspace=session.workspace or "default",
    )


async def _followed(
    session: CliSession,
    handle: RunHandle[Any],
    name: str,
    detach: bool,
    timeout: float | None,
    exit_on_wait: bool,
    how: str,
) -> int:
    """Follow a run to its end, print its result, and return the exit code."""
    from stepwell.cli.run_rows import SHORT_ID, whole_run_data
    from stepwell.cli.run_watch import RunWatch

    if detach:
        if session.out.as_json:
            session.out.json({"id": handle.id})
        else:
            session.out.line(handle.id)
            session.out.say(f"started; follow: {session.command(f'watch {handle.id}')}")
        return 0
    view = RunWatch(session, handle, f"{handle.id[:SHORT_ID]}  {name}")
    try:
        code = await view.follow(timeout=timeout, exit_on_wait=exit_on_wait)
    except asyncio.CancelledError:  # Ctrl-C
        return view.say_detached(how)
    if session.out.as_json:
        session.out.json(whole_run_data(await handle.info()))
    elif view.tree.status == "completed" and code == 0:
        session.out.line(encoded(view.tree.result))
    return code


async def _printed(session: CliSession, handle: RunHandle[Any], timeout: float | None) -> int:
    """Print the events of a run as JSON Lines until it ends."""
    from stepwell.cli.commands.runs import event_data
    from stepwell.cli.failure import CANCELLED, FAILED, INTERRUPTED
    from stepwell.errors import NotEndedYet

    try:
        async with asyncio.timeout(timeout) as clock:
            async for event in handle.events(follow=True):
                session.out.json(event_data(event))
    except asyncio.CancelledError:
        return INTERRUPTED
    except TimeoutError:
        if not clock.expired():
            raise
        raise NotEndedYet(f"run {handle.id} has not ended after {timeout:g} s") from None
    status = (await handle.status()).value
    return {"completed": 0, "cancelled": CANCELLED}.get(status, FAILED)
