"""The time that counts to a run's own limit when its worker dies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import node
from stepwell.authoring.graphs.build.building import Builder
from stepwell.authoring.graphs.nodes.registry import NodeRegistry
from stepwell.authoring.graphs.program import graph
from stepwell.engine.journal import read_journal
from stepwell.testing.engine import VirtualEngine
from tests.authoring.graphs.graphs import START, a, chart

PLAIN = ([START, a("A", "work"), a("Z", "end")], "S>A A>Z")
BESIDE_A_TIMER = (
    [START, a("A", "work"), a("D", "delay", ms=50), a("J", "merge", timeoutMs=80_000_000), a("Z", "end")],
    "S>A S>D A>J D>J J>Z",
)


@pytest.mark.req("K12", "G13")
@pytest.mark.parametrize(("nodes", "edges"), [PLAIN, BESIDE_A_TIMER])
async def test_an_outage_does_not_use_up_the_limit(nodes: list[Any], edges: str) -> None:
    begun = asyncio.Event()

    @node("work")
    async def work(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> None:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()

    made = graph(chart(nodes, edges, maxExecutionMs=100_000), builder=Builder(NodeRegistry([work])))
    engine = VirtualEngine(made)
    await engine.open()
    run = await engine.start(made, {})
    await begun.wait()
    await engine.crash()

    engine.clock.advance(3_600)
    async with VirtualEngine(made, store=engine.memory, clock=engine.clock) as next_one:
        await next_one.handle(run.id).result(timeout=10)


@pytest.mark.req("K12", "G13")
async def test_what_the_log_tells_of_a_dead_worker_counts() -> None:
    begun = asyncio.Event()

    @node("work")
    async def work(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> None:
        engine.clock.advance(60)

    @node("stuck")
    async def stuck(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    nodes = [START, a("A", "work"), a("B", "stuck"), a("Z", "end")]
    made = graph(chart(nodes, "S>A A>B B>Z"), builder=Builder(NodeRegistry([work, stuck])))
    engine = VirtualEngine(made)
    await engine.open()
    run = await engine.start(made, {})
    await begun.wait()
    await engine.crash()

    rows = [row async for row in run.log()]
    assert read_journal(rows, engine.clock.time() + 86_400).active_seconds == pytest.approx(60)
