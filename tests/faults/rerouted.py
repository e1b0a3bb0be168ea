"""A run that is rerouted: to a kind that no worker has, back again, and cancelled before it is due."""

from __future__ import annotations

from typing import Any

from stepwell import Engine
from stepwell.domain.ids import needs_workflow

NOBODY = "nobody@1"


async def reroute(engine: Engine, workflow: Any, input: Any, **options: Any) -> None:
    """Harmless to repeat: a run whose needs do not match stays where it is."""
    run = await engine.start(workflow, input, delay="1h", **options)
    row = await run.info()
    needs = needs_workflow(row.workflow, row.version)
    await engine.store.reroute(run.id, needs=needs, to=NOBODY)
    await engine.store.reroute(run.id, needs=NOBODY, to=needs)
    await run.cancel()
