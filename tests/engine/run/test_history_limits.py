"""A long log is warned of, and one that is too long ends its run with a hint."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from stepwell import Context, Machine, RunFailed, step, transition, workflow
from stepwell.errors import SettingsInvalid
from stepwell.settings import Settings
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import SETTINGS, Engines

SHORT = replace(SETTINGS, history_warn=20, history_max=40)
undone: list[int] = []


@step
async def count(n: int) -> int:
    return n + 1


async def undo(result: int) -> None:
    undone.append(result)


@step(compensate=undo)
async def book(n: int) -> int:
    return n


@workflow
async def endless(ctx: Context) -> int:
    n = 0
    while n < 1000:
        n = await ctx.step(count, n)
    return n


@workflow
async def generations(ctx: Context, n: int) -> int:
    for _ in range(10):
        n = await ctx.step(count, n)
    return n if n >= 200 else ctx.continue_as_new(n)


@pytest.mark.req("F10")
async def test_a_log_that_is_too_long_ends_its_run_with_a_hint(engines: Engines) -> None:
    async with engines.new(endless, settings=SHORT) as engine:
        run = await engine.start(endless)
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout=60)
        events = [event async for event in run.events()]
        error = (await run.state()).error

    assert error is not None
    assert error.code == "HISTORY_LIMIT"
    assert "continue_as_new" in str(failed.value)
    assert 40 <= len(events) <= 60


@pytest.mark.req("F10")
async def test_a_long_log_is_warned_of_once(engines: Engines, caplog: pytest.LogCaptureFixture) -> None:
    @workflow
    async def thirty(ctx: Context) -> int:
        n = 0
        for _ in range(30):
            n = await ctx.step(count, n)
        return n

    with caplog.at_level(logging.WARNING, "stepwell.engine"):
        async with engines.new(thirty, settings=SHORT) as engine:
            run = await engine.start(thirty)
            assert await run.result(timeout=60) == 30

    warnings = [record.getMessage() for record in caplog.records if "continue_as_new" in record.getMessage()]
    assert len(warnings) == 1
    assert run.id in warnings[0]


@pytest.mark.req("F10")
async def test_each_generation_counts_anew(replayed_engines: Engines) -> None:
    async with replayed_engines.new(generations, settings=SHORT) as engine:
        run = await engine.start(generations, 0)
        assert await run.result(timeout=60) == 200
        assert len([event async for event in run.events()]) > 200


async def test_each_place_of_a_machine_counts_anew(engines: Engines) -> None:
    class Rounds(Machine[dict[str, Any]]):
        @transition("start", "again")
        async def begin(self, ctx: Context) -> None:
            self.state["n"] = 0

        @transition("again", "again", when=lambda state: state["n"] < 100)
        async def turn(self, ctx: Context) -> None:
            self.state["n"] += 1

        @transition("again", "end", when=lambda state: state["n"] >= 100)
        async def stop(self, ctx: Context) -> None: ...

    async with engines.new(Rounds, settings=SHORT) as engine:
        run = await engine.start(Rounds)
        assert (await run.result(timeout=60))["n"] == 100


@pytest.mark.req("F10", "G10")
async def test_a_loop_that_waits_too_often_ends_its_graph(
    engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    """The run is given back after every iteration: each commit parks it."""
    nodes = [START, a("L", "loop", times=50), a("D", "delay", "L", ms=5), a("Z", "end")]
    async with engines.new(chart(nodes, "S>L L>Z"), settings=SHORT) as engine:
        run = await engine.start("chart", {})
        with pytest.raises(RunFailed, match="the limit is 40"):
            await run.result(timeout=60)
        error = (await run.state()).error
        events = [event async for event in run.events()]

    assert error is not None
    assert error.code == "HISTORY_LIMIT"
    assert 40 <= len(events) <= 60
    warnings = [said for said in caplog.messages if "let a child workflow do each part" in said]
    assert len(warnings) == 1


@pytest.mark.req("F10")
async def test_a_function_that_waits_too_often_ends(engines: Engines) -> None:
    @workflow
    async def looks(ctx: Context) -> None:
        for _ in range(50):
            await ctx.sleep(0.005)

    async with engines.new(looks, settings=SHORT) as engine:
        run = await engine.start(looks)
        with pytest.raises(RunFailed, match="the limit is 40"):
            await run.result(timeout=60)


async def test_what_was_done_is_undone(memory_engines: Engines) -> None:
    @workflow
    async def books(ctx: Context) -> None:
        for n in range(1000):
            await ctx.step(book, n)

    undone.clear()
    async with memory_engines.new(books, settings=SHORT) as engine:
        run = await engine.start(books)
        with pytest.raises(RunFailed):
            await run.result(timeout=60)

    assert undone == sorted(undone, reverse=True)
    assert len(undone) > 30


def test_the_warning_comes_before_the_limit() -> None:
    assert (Settings().history_warn, Settings().history_max) == (50_000, 500_000)
    with pytest.raises(SettingsInvalid, match="history_warn is 50000, history_max 100"):
        Settings(history_max=100)
