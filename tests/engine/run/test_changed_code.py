"""Code that changed under a run: told readably, never a corrupt run; and safe changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, RunFailed, workflow
from stepwell.domain.program import Program
from tests.engines import Engines, all_events, log, suspended


async def charge(n: int) -> int:
    return n


async def ship(n: int) -> int:
    return -n


@workflow(name="order")
async def old(ctx: Context) -> list[Any]:
    first = await ctx.step(charge, 1)
    return [first, await ctx.signal("go"), await ctx.step(charge, 2)]


@workflow(name="order")
async def renamed(ctx: Context) -> list[Any]:
    first = await ctx.step(ship, 1)
    return [first, await ctx.signal("go"), await ctx.step(charge, 2)]


@workflow(name="order")
async def removed(ctx: Context) -> list[Any]:
    return [await ctx.signal("go")]


@workflow(name="order")
async def ended(ctx: Context) -> list[Any]:
    return []


@pytest.mark.req("F8")
@pytest.mark.parametrize(("changed", "asks"), [(renamed, "ship"), (removed, "signal:go")])
async def test_changed_code_is_told_and_the_old_code_can_go_on(
    engines: Engines, changed: Program, asks: str
) -> None:
    async with engines.new(old) as engine:
        run = await engine.start(old)
        await suspended(run)
        before = await log(run)
    async with engines.new(changed) as engine:
        again = engine.handle(run.id)
        await again.signal("go", "on")
        with pytest.raises(RunFailed) as caught:
            await again.result(15)
        assert caught.value.cause_code == "CODE_CHANGED"
        assert "0/charge#1" in str(caught.value)
        assert asks in str(caught.value)
        assert "patched" in caught.value.hint
        assert (await log(again))[: len(before)] == before
    async with engines.new(old) as engine:
        again = engine.handle(run.id)
        await again.retry()

        assert await again.result(15) == [1, "on", 2]  # what came meanwhile is not lost


@workflow(name="asks")
async def asks(ctx: Context) -> list[Any]:
    return [await ctx.step(charge, 1), await ctx.approval(bool, title="pay?")]


@workflow(name="asks")
async def asks_otherwise(ctx: Context) -> list[Any]:
    return [await ctx.step(ship, 1), await ctx.approval(bool, title="pay?")]


@pytest.mark.req("F8", "K11")
async def test_a_decision_that_changed_code_could_not_take_counts_after_a_retry(
    engines: Engines,
) -> None:
    async with engines.new(asks) as engine:
        run = await engine.start(asks)
        await suspended(run)
    async with engines.new(asks_otherwise) as engine:
        again = engine.handle(run.id)
        await again.decide(True, by="ana")
        with pytest.raises(RunFailed, match="charge"):
            await again.result(15)
        assert (await again.state()).unconsumed == []
    async with engines.new(asks) as engine:
        again = engine.handle(run.id)
        await again.retry()

        assert await again.result(15) == [1, True]
        assert [e.data["by"] for e in await all_events(again) if e.kind == "received"] == ["ana"]


@pytest.mark.req("F8")
async def test_code_that_ends_before_what_is_recorded_is_told(memory_engines: Engines) -> None:
    async with memory_engines.new(old) as engine:
        run = await engine.start(old)
        await suspended(run)
        await run.signal("go", 1)
        await run.result()
    async with memory_engines.new(old) as engine:
        run = await engine.start(old)
        await suspended(run)
    async with memory_engines.new(ended) as engine:
        again = engine.handle(run.id)
        await again.signal("go", 1)
        with pytest.raises(RunFailed) as caught:
            await again.result(15)

    assert caught.value.cause_code == "CODE_CHANGED"


@pytest.mark.req("F8", "F2")
async def test_branches_that_changed_places_are_told(memory_engines: Engines) -> None:
    def made(order: str) -> Program:
        @workflow(name="pair")
        async def pair(ctx: Context) -> list[Any]:
            async def branch(who: str) -> str:
                return await ctx.step(str, who)

            found = await asyncio.gather(*(branch(who) for who in order))
            return [*found, await ctx.signal("go")]

        return pair

    async with memory_engines.new(made("ab")) as engine:
        run = await engine.start("pair")
        await suspended(run)
    async with memory_engines.new(made("ba")) as engine:
        again = engine.handle(run.id)
        await again.signal("go", 1)
        with pytest.raises(RunFailed) as caught:
            await again.result(15)

    assert caught.value.cause_code == "CODE_CHANGED"
    assert "arguments" in str(caught.value)


@pytest.mark.req("F8")
async def test_patched_lets_old_runs_finish_the_old_way_and_new_ones_the_new(engines: Engines) -> None:
    @workflow(name="order")
    async def patched(ctx: Context) -> list[Any]:
        first = await ctx.step(ship, 5) if ctx.patched("ship-first") else await ctx.step(charge, 1)
        return [first, await ctx.signal("go"), await ctx.step(charge, 2)]

    async with engines.new(old) as engine:
        run = await engine.start(old)
        await suspended(run)
    async with engines.new(patched) as engine:
        again, fresh = engine.handle(run.id), await engine.start(patched)
        for one in (again, fresh):
            await one.signal("go", "on")

        assert await again.result(15) == [1, "on", 2]
        assert await fresh.result(15) == [-5, "on", 2]


@pytest.mark.req("F8")
async def test_patched_is_the_same_on_replay(replayed_engines: Engines) -> None:
    @workflow
    async def patched(ctx: Context) -> list[Any]:
        found = [ctx.patched("a")]
        await ctx.step(charge, 1)
        found.append(ctx.patched("a"))
        await ctx.step(charge, 2)
        return [*found, ctx.patched("b")]

    async with replayed_engines.new(patched) as engine:
        assert await (await engine.start(patched)).result() == [True, True, True]
