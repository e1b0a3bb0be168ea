"""The program `stepwell`: which module has which command. A module is imported when its command is called."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from stepwell.cli.command import CONTEXT, Place, PlainHelp, hoisted, read_plainly
from stepwell.cli.help import sections_help

_DAILY, _RUNS, _OPERATION, _PROJECT = "Daily work", "Runs and workflows", "Operation", "Set-up"
PLACES: dict[str, Place] = {
    "run": Place("run", "Start a workflow and follow it.", _DAILY),
    "watch": Place("run", "Follow a run until it ends.", _DAILY),
    "why": Place("why", "Explain why a run does not move.", _DAILY),
    "worker": Place("worker", "Run the workflows of a file until SIGTERM or Ctrl-C.", _DAILY),
    "dev": Place(
        "serve", "Serve the HTTP API and run the workflows of a file; restart when the file changes.", _DAILY
    ),
    "runs": Place("runs run_control", "List, inspect and control runs.", _RUNS, group=True),
    "workflows": Place("workflows", "List, draw, save and switch workflows.", _RUNS, group=True),
    "schedules": Place("schedules", "Start workflows by time.", _RUNS, group=True),
    "webhooks": Place("webhooks", "Let other services start workflows.", _RUNS, group=True),
    "triggers": Place("triggers", "Start workflows when something happens.", _RUNS, group=True),
    "records": Place("records", "Keep typed values in collections.", _RUNS, group=True),
    "approvals": Place("approvals", "List and decide the open approvals of all runs.", _RUNS, group=True),
    "check": Place(
        "check", "Check that the live runs of a database replay on this code, before you deploy it.", _RUNS
    ),
    "doctor": Place("doctor", "Check Python, the database, its workers and its clock.", _OPERATION),
    "workers": Place("workers", "List and drain the workers of a database.", _OPERATION, group=True),
    "queues": Place("workers:queues", "List the queues with their runs and workers.", _OPERATION, group=True),
    "limits": Place(
        "limits", "List, set and drop limits on concurrent runs, and on starts.", _OPERATION, group=True
    ),
    "holds": Place("holds", "Hold and release workflows, queues and the workspace.", _OPERATION, group=True),
    "audit": Place("audit", "List who changed what through a server.", _OPERATION, group=True),
    "alerts": Place("alerts", "Set, list and delete alerts.", _OPERATION, group=True),
    "keys": Place("keys", "Create, list and revoke API keys.", _OPERATION, group=True),
    "secrets": Place("secrets", "Set, list, delete and rotate secrets.", _OPERATION, group=True),
    "serve": Place("serve", "Serve the HTTP API of a database.", _OPERATION),
    "db": Place("db", "Inspect, check, upgrade, back up and prune a database.", _OPERATION, group=True),
    "move": Place("move", "Move everything from a SQLite file to an empty PostgreSQL database.", _OPERATION),
    "init": Place("init", "Write a small project: flows.py, and a test of it that passes.", _PROJECT),
    "demo": Place("demo", "Show Studio with runs of all kinds, and let you kill a worker.", _PROJECT),
    "bench": Place("bench", "Measure runs per second and the latency of a run.", _PROJECT),
    "completion": Place("completion", "Let the shell complete commands and options.", _PROJECT, group=True),
}


class Root(PlainHelp, TyperGroup):
    """The first level of commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(PLACES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        place = PLACES.get(cmd_name)
        return None if place is None else place.build(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.commands = {name: None for name in PLACES}  # type: ignore[misc]  # for suggestions
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, place in PLACES.items():
            sections.setdefault(place.section, []).append((name, place.summary))
        end = (
            "See `stepwell COMMAND --help` for options and examples. Every command takes --json.\n"
            "Data goes to stdout, messages to stderr. `stepwell --version` prints the version."
        )
        title = "Durable workflows in Python."
        formatter.write(sections_help(title, "stepwell COMMAND [OPTIONS]", sections, end))

    def hoisted(self, arguments: list[str]) -> list[str]:
        """Return the arguments with shared options moved after the command that they precede."""
        return hoisted(arguments, lambda word: word in PLACES and PLACES[word].group)


def _version(wanted: bool) -> None:
    if wanted:
        from stepwell import __version__

        print(f"stepwell {__version__}")
        raise typer.Exit


def root() -> Root:
    """Return the program as typer calls it."""
    if "_STEPWELL_COMPLETE" in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
    app = typer.Typer(
        name="stepwell",
        cls=Root,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=CONTEXT,
    )

    @app.callback(invoke_without_command=True)
    def first(
        ctx: typer.Context,
        version: bool = typer.Option(False, "--version", is_eager=True, callback=_version),
    ) -> int:
        if ctx.invoked_subcommand is None:
            print(ctx.get_help())
            return 2
        return 0

    program = typer.main.get_command(app)
    assert isinstance(program, Root)
    for parameter in program.params:
        read_plainly(parameter)
    return program


def walk() -> Iterator[tuple[str, Any]]:
    """Return every command with its name, such as `runs list`, for the reference and its tests."""
    for name, place in PLACES.items():
        if not place.group:
            yield name, place.build(name)
            continue
        for entry in place.commands.entries.values():
            yield f"{name} {entry.name}", entry.build()
