"""`stepwell worker`: a process that runs the workflows of a file or module."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

from stepwell.app import Engine
from stepwell.cli.source import collect
from stepwell.store.payloads import PayloadCodec


def redacted(database: str) -> str:
    """Return the address without its password, which must not be logged."""
    parts = urlsplit(database)
    if not parts.password:
        return database
    return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":…@")))


async def work(source: str, database: str, queues: Sequence[str], codec: PayloadCodec | None = None) -> int:
    programs = collect(source)
    engine = Engine(
        database,
        workflows=programs.workflows,
        steps=programs.steps,
        nodes=programs.nodes,
        queues=queues,
        codec=codec,
    )
    definitions = [workflow.definition for workflow in programs.workflows]
    steps = [f"step {step.spec.name}" for step in programs.steps]
    names = ", ".join(
        [f"{definition.name} version {definition.version}" for definition in definitions] or steps
    )

    def on_start() -> None:
        print(f"working on {redacted(database)}, queue {', '.join(queues)}: {names}", file=sys.stderr)

    await engine.serve(on_start)
    print("stopped; nothing was left half done", file=sys.stderr)
    return 0
