"""Operators: change when a sleeping run wakes, and discard test runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, workflow
from stepwell.errors import InvalidDefinition, NotRemovable, NotSleeping, RunNotFound
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import Engines, suspended, until


@workflow
async def sleeps(ctx: Context, n: int) -> str:
    await ctx.sleep("1h")
    return "awake"


@workflow
async def two_timers(ctx: Context, n: int) -> list[int]:
    async def one(i: int) -> int:
        await ctx.sleep("1h")
        return i

    return list(await asyncio.gather(one(1), one(2)))


@workflow
async def waits(ctx: Context, n: int) -> str:
    return str(await ctx.signal("go"))


@workflow
async def with_child(ctx: Context, n: int) -> str:
    return await ctx.run(waits, n)


@pytest.mark.req("K39")
async def test_a_timer_fires_at_once_or_later(engines: Engines) -> None:
    async with engines.new(sleeps) as engine:
        run = await engine.start(sleeps, 1)
        await suspended(run)
        [before] = await run.waits()

        await run.change_delay("3h", by="ann", reason="too early")
        await until(lambda: _moved(run, before.due_at))
        [after] = await run.waits()
        assert before.due_at is not None
        assert after.due_at is not None
        assert 6000 < after.due_at - before.due_at < 8000
        await suspended(run)
        assert abs((await run.why()).until - after.due_at) < 5  # type: ignore[operator]

        await run.change_delay(0)
        assert await run.result("20s") == "awake"
        changes = [event.data async for event in run.events() if event.kind == "delay_changed"]
        assert (changes[0]["by"], changes[0]["reason"]) == ("ann", "too early")
        assert len(changes) == 2


async def _moved(run: Any, due_at: float | None) -> bool:
    return any(wait.due_at != due_at for wait in await run.waits())


@pytest.mark.req("K39")
async def test_one_of_several_timers_is_named(engines: Engines) -> None:
    async with engines.new(two_timers, waits) as engine:
        run, other = await engine.start(two_timers, 1), await engine.start(waits, 1)
        await until(lambda: _timers(run))
        await suspended(run)
        await suspended(other)

        with pytest.raises(NotSleeping, match="has 2 timers"):
            await run.change_delay(0)
        with pytest.raises(NotSleeping, match="no timer at"):
            await run.change_delay(0, path="0/sleep#9")
        with pytest.raises(NotSleeping, match="has 0 timers"):
            await other.change_delay(0)
        with pytest.raises(InvalidDefinition):
            await run.change_delay("soon")
        for wait in await run.waits():
            await run.change_delay(0, path=wait.path)
        assert await run.result("20s") == [1, 2]


async def _timers(run: Any) -> bool:
    return len(await run.waits()) == 2


@pytest.mark.req("K39", "N11")
async def test_the_delay_of_a_graph_is_changed(engines: Engines) -> None:
    body = chart([START, a("D", "delay", duration="1h"), a("Z", "end", output={"ok": True})], "S>D D>Z")
    async with engines.new(body) as engine:
        run = await engine.start("chart", {})
        await suspended(run)

        await run.change_delay(0)

        assert await run.result("20s") == {"ok": True}


@pytest.mark.req("K39")
async def test_a_test_run_is_stopped_and_deleted(engines: Engines) -> None:
    async with engines.new(with_child, waits) as engine:
        start: Any = engine.start
        test, real = await start(with_child, 1, test=True), await engine.start(waits, 1)
        await suspended(test)
        await suspended(real)

        await test.discard(by="ann")

        with pytest.raises(RunNotFound):
            await test.info()
        assert [run.id for run in await engine.runs()] == [real.id]
        with pytest.raises(NotRemovable, match="not a test run"):
            await real.discard()
