"""`stepwell worker`: one more process that runs the workflows of a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

from stepwell.app import Engine
from stepwell.cli.source import collect
from stepwell.store.payloads import PayloadCodec


def shown(database: str) -> str:
    """Without the password, which a log must not hold."""
    parts = urlsplit(database)
    if not parts.password:
        return database
    return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":…@")))


async def work(source: str, database: str, queues: Sequence[str], codec: PayloadCodec | None = None) -> int:
    found = collect(source)
    engine = Engine(
        database,
        workflows=found.workflows,
        steps=found.steps,
        nodes=found.nodes,
        queues=queues,
        codec=codec,
    )
    known = [workflow.definition for workflow in found.workflows]
    steps = [f"step {step.spec.name}" for step in found.steps]
    names = ", ".join([f"{definition.name} version {definition.version}" for definition in known] or steps)

    def begun() -> None:
        print(f"working on {shown(database)} for {', '.join(queues)}: {names}", file=sys.stderr)

    await engine.serve(begun)
    print("stopped; nothing was left half done", file=sys.stderr)
    return 0
