"""`stepwell worker`: a process that runs the workflows of a file or module."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import LogAs, Metrics, Source, log_format, metrics_place
from stepwell.cli.session import CliSession, redacted

commands = Commands()


@commands.add(
    "worker",
    "stepwell worker flows.py --database app.db",
    "stepwell worker app.flows --database postgresql://localhost/app --queue default --queue gpu",
)
async def worker(
    session: CliSession,
    source: Source,
    queue: Annotated[
        list[str], typer.Option("--queue", "-q", metavar="NAME", help="Queue to serve; else `default`.")
    ] = [],
    slots: Annotated[
        int | None,
        typer.Option("--slots", metavar="N", help="Runs to drive at once; else STEPWELL_SLOTS.", min=1),
    ] = None,
    metrics: Metrics = "",
    log_as: LogAs = "text",
) -> None:
    """Run the workflows of a file until SIGTERM or Ctrl-C.

    On either, steps finish first and nothing is left half done.
    """
    from dataclasses import replace

    from stepwell.app import Engine
    from stepwell.cli.log_lines import write_log
    from stepwell.cli.source import collect
    from stepwell.server.metrics import Metrics as ProcessMetrics
    from stepwell.server.metrics import MetricsPort
    from stepwell.settings import Settings

    session.need_database("worker")
    write_log(log_format(log_as))
    programs = collect(source)
    queues = queue or ["default"]
    settings = Settings.from_env()
    engine = Engine(
        session.database,
        workflows=programs.workflows,
        steps=programs.steps,
        nodes=programs.nodes,
        sources=programs.sources,
        queues=queues,
        codec=session.codec,
        settings=replace(settings, slots=slots) if slots is not None else settings,
    )
    definitions = [workflow.definition for workflow in programs.workflows]
    steps = [f"step {step.spec.name}" for step in programs.steps]
    names = [f"{definition.name} version {definition.version}" for definition in definitions] or steps
    database = redacted(session.database)

    port = MetricsPort(engine, ProcessMetrics(engine)).listening(metrics_place(metrics))
    async with port as shown:

        def on_start() -> None:
            session.out.say(f"working on {database}, queue {', '.join(queues)}: {', '.join(names)}")
            if shown:
                session.out.say(f"metrics at {shown}")
            if session.out.as_json:
                words = {"database": database, "queues": queues, "workflows": names, "metrics": shown}
                session.out.json(words)

        await engine.serve(on_start)
    session.out.say("stopped; nothing was left half done")
