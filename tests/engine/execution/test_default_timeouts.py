"""Timeouts that the author did not choose are settings of the worker."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from stepwell import Context, Machine, RunFailed, step, transition, workflow
from stepwell.authoring.graphs.format.python_builder import GraphBuilder
from stepwell.errors import RunTimedOut
from tests.engines import SETTINGS, Engines

pytestmark = pytest.mark.req("K12")

QUICK = replace(SETTINGS, step_timeout_seconds=0.05)
UNLIMITED = replace(SETTINGS, step_timeout_seconds=None, graph_timeout_seconds=None, suspension_seconds=None)


@step
async def hangs() -> str:
    await asyncio.sleep(20)
    return "late"


@step(timeout=20)
async def patient() -> str:
    await asyncio.sleep(0.2)
    return "done"


@workflow
async def hanging(ctx: Context) -> str:
    return await ctx.step(hangs)


@workflow
async def choosing(ctx: Context) -> str:
    return await ctx.step(patient)


async def test_steps_that_choose_no_timeout_have_that_of_their_worker(engines: Engines) -> None:
    async with engines.new(hanging, choosing, settings=QUICK) as engine:
        run, chosen = await engine.start(hanging), await engine.start(choosing)
        with pytest.raises(RunFailed, match=r"hangs took longer than 0\.05 s"):
            await run.result(timeout=30)
        assert await chosen.result(timeout=30) == "done"


async def test_remote_steps_have_that_of_their_caller(memory_engines: Engines) -> None:
    @workflow
    async def far(ctx: Context) -> str:
        return await ctx.step.on(queue="far")(hangs)

    async with memory_engines.new(far, settings=QUICK) as engine:
        run = await engine.start(far)
        with pytest.raises(RunFailed, match=r"not done within 0\.05 s"):
            await run.result(timeout=30)
        [scheduled] = [event.data async for event in run.events() if event.kind == "step_scheduled"]

    assert scheduled["timeout"] == 0.05


async def test_transitions_that_choose_no_timeout_have_that_of_their_worker(memory_engines: Engines) -> None:
    class Slow(Machine[dict[str, Any]]):
        @transition("start", "end")
        async def go(self, ctx: Context) -> None:
            await asyncio.sleep(20)

    async with memory_engines.new(Slow, settings=QUICK) as engine:
        run = await engine.start(Slow)
        with pytest.raises(RunFailed, match=r"go took longer than 0\.05 s"):
            await run.result(timeout=30)


def waiting_graph(name: str, **settings: Any) -> GraphBuilder:
    graph = GraphBuilder(name, **settings)
    graph.node("start") >> graph.node("wait", id="w", event="never") >> graph.node("end")
    return graph


async def test_waits_of_graphs_expire_by_a_setting(engines: Engines) -> None:
    settings = replace(SETTINGS, suspension_seconds=0.05)
    async with engines.new(waiting_graph("waits"), settings=settings) as engine:
        run = await engine.start("waits")
        with pytest.raises(RunFailed, match="the wait timed out"):
            await run.result(timeout=30)


async def test_graphs_time_out_by_a_setting(memory_engines: Engines) -> None:
    graph = GraphBuilder("works")
    graph.node("start") >> graph.node("call", id="c", step="hangs") >> graph.node("end")
    settings = replace(SETTINGS, graph_timeout_seconds=0.1)
    async with memory_engines.new(graph, steps=[hangs], settings=settings) as engine:
        run = await engine.start("works")
        with pytest.raises(RunTimedOut):
            await run.result(timeout=30)


async def test_none_disables_them(memory_engines: Engines) -> None:
    async with memory_engines.new(waiting_graph("waits"), hanging, settings=UNLIMITED) as engine:
        graph = await engine.start("waits")
        wait = await graph.waiting_for("w")
        [accepted] = [event.data async for event in graph.events() if event.kind == "accepted"]

    assert wait.due_at is None
    assert accepted.get("timeout") is None
