"""The time that counts to a run's own limit, when workers die beside open timers."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from stepwell import node
from stepwell.authoring.graphs.build.building import Builder
from stepwell.authoring.graphs.nodes.registry import NodeRegistry
from stepwell.authoring.graphs.program import graph
from stepwell.client import RunHandle
from stepwell.engine.activation import Activation
from stepwell.engine.journal import read_journal
from stepwell.errors import RunTimedOut
from stepwell.testing.engine import VirtualEngine
from tests.authoring.graphs.graphs import START, a, chart
from tests.stage import until


@pytest.mark.req("K12", "G13")
async def test_work_beside_an_open_timer_counts_to_the_limit_when_its_worker_dies() -> None:
    begun: asyncio.Queue[int] = asyncio.Queue()

    @node("stuck")
    async def stuck(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> None:
        begun.put_nowait(helpers.attempt)
        await asyncio.Event().wait()

    nodes = [START, a("A", "stuck", timeoutMs=86_400_000), a("D", "delay", ms=70_000_000)]
    nodes += [a("J", "merge", timeoutMs=80_000_000), a("Z", "end")]
    body = chart(nodes, "S>A S>D A>J D>J J>Z", maxExecutionMs=100_000)
    made = graph(body, builder=Builder(NodeRegistry([stuck])))
    engine = VirtualEngine(made)
    await engine.open()
    run = await engine.start(made, {})
    await begun.get()
    await told_to_be_long(engine, run)

    engine.clock.advance(90)
    await engine.crash()

    rows = [row async for row in run.log()]
    assert read_journal(rows, engine.clock.time()).active_seconds == pytest.approx(90)
    engine.clock.advance(20)
    async with VirtualEngine(made, store=engine.memory, clock=engine.clock) as next_one:
        with pytest.raises(RunTimedOut):
            await next_one.handle(run.id).result(timeout=10)


async def told_to_be_long(engine: VirtualEngine, run: RunHandle[Any]) -> None:
    """As a heartbeat does: the log says which steps are under way."""
    assert engine.worker is not None
    for work in engine.worker.active.values():
        assert isinstance(work, Activation)
        work.steps.note_long(math.inf)
        work.settle()
    await until(lambda: begun_steps(run))


async def begun_steps(run: RunHandle[Any]) -> list[str]:
    return [row.path async for row in run.log() if row.kind == "step_started"]
