"""`stepwell worker`: one more process that runs the workflows of a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from stepwell.app import Engine
from stepwell.cli.source import collect


async def work(source: str, database: str, queues: Sequence[str]) -> int:
    found = collect(source)
    engine = Engine(database, workflows=found.workflows, steps=found.steps, queues=queues)
    known = [workflow.definition for workflow in found.workflows]
    names = ", ".join(f"{definition.name} version {definition.version}" for definition in known)
    print(f"working on {database} for {', '.join(queues)}: {names}", file=sys.stderr)
    await engine.serve()
    print("stopped; nothing was left half done", file=sys.stderr)
    return 0
