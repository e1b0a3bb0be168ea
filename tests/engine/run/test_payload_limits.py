"""Payload limits, everywhere a value enters; and a graceful stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from stepwell import Context, RunFailed, workflow
from stepwell.domain.status import Status
from stepwell.engine.run.activation import Activation
from stepwell.errors import PayloadTooLarge
from tests.engines import SETTINGS, Engines, kinds, suspended, until

SMALL = replace(SETTINGS, payload_bytes_max=1000)
BIG = "x" * 2000


@workflow
async def waits(ctx: Context, text: str) -> str:
    return str(await ctx.approval(str))


@pytest.mark.req("K32")
@pytest.mark.parametrize("verb", ["start", "by name", "signal", "decide", "emit"])
async def test_too_large_a_value_is_refused_at_the_door(engines: Engines, verb: str) -> None:
    async with engines.new(waits, settings=SMALL) as engine:
        run = await engine.start(waits, "small")
        await suspended(run)
        doors: dict[str, Callable[[], Awaitable[Any]]] = {
            "start": lambda: engine.start(waits, BIG),
            "by name": lambda: engine.start("waits", BIG),
            "signal": lambda: run.signal("x", BIG),
            "decide": lambda: run.decide(BIG),
            "emit": lambda: engine.emit("x", BIG),
        }

        with pytest.raises(PayloadTooLarge) as caught:
            await doors[verb]()

        assert "2,002" in str(caught.value)
        assert "1,000" in str(caught.value)
        assert "reference" in caught.value.hint
        assert len(await engine.runs()) == 1
        await run.decide("yes")
        assert await run.result() == "yes"


@workflow
async def large(ctx: Context, where: str) -> Any:
    match where:
        case "step":
            await ctx.step(lambda: BIG)
        case "child":
            await ctx.run(waits, BIG)
        case "publish":
            ctx.publish("topic", BIG)
        case "remote":
            await ctx.step.on(queue="gpu")(len, BIG)
        case "continue":
            ctx.continue_as_new(BIG)
    return BIG


@pytest.mark.req("K32")
@pytest.mark.parametrize("where", ["step", "child", "publish", "remote", "continue", "result"])
async def test_too_large_a_value_in_a_run_fails_it_with_the_reason(
    memory_engines: Engines, where: str
) -> None:
    async with memory_engines.new(large, waits, settings=SMALL) as engine:
        run = await engine.start(large, where)
        with pytest.raises(RunFailed) as caught:
            await run.result(10)

        assert "the limit is 1,000" in str(caught.value)
        assert "payload_bytes_max" in str(caught.value)
        assert await run.status() is Status.FAILED


@pytest.mark.req("K32")
async def test_default_limit_is_two_mebibytes(engines: Engines) -> None:
    @workflow
    async def echo(ctx: Context, size: int) -> int:
        return len(await ctx.step(lambda: "x" * size))

    async with engines.new(echo) as engine:
        just = 2 * 1024 * 1024 - 2
        assert await (await engine.start(echo, just)).result(20) == just
        with pytest.raises(RunFailed, match="limit"):
            await (await engine.start(echo, just + 1)).result(20)


@pytest.mark.req("K34")
async def test_stop_gives_back_what_has_not_begun_and_finishes_what_runs(engines: Engines) -> None:
    gate, begun, done = asyncio.Event(), asyncio.Event(), []

    async def work(n: int) -> int:
        begun.set()
        await gate.wait()
        done.append(n)
        return n

    @workflow
    async def two(ctx: Context, n: int) -> list[int]:
        return [await ctx.step(work, n), await ctx.step(work, -n)]

    settings = replace(SETTINGS, slots=1)
    engine = engines.new(two, settings=settings)
    await engine.open()
    first = await engine.start(two, 1)
    await begun.wait()  # of two that start at once, either may begin
    second = await engine.start(two, 2)
    closing = asyncio.ensure_future(engine.close())
    assert engine.worker is not None
    [work_of_first] = engine.worker.active.values()
    await until(lambda: isinstance(work_of_first, Activation) and work_of_first.draining)
    gate.set()
    await closing

    assert done == [1]  # what ran is finished and recorded, the next step is for somebody else
    async with engines.new(two) as again:
        assert await again.handle(first.id).result(15) == [1, -1]
        assert await again.handle(second.id).result(15) == [2, -2]
        assert "lease_lost" not in await kinds(again.handle(first.id))
    assert sorted(done) == [-2, -1, 1, 2]


@pytest.mark.req("K34")
async def test_step_that_outlasts_the_grace_time_is_left_to_others_at_once(engines: Engines) -> None:
    begun: list[int] = []

    async def stuck() -> int:
        begun.append(1)
        if len(begun) == 1:
            await asyncio.Event().wait()
        return len(begun)

    @workflow
    async def runs(ctx: Context) -> int:
        return await ctx.step(stuck)

    async with engines.new(runs, settings=replace(SETTINGS, grace_seconds=0.1)) as engine:
        run = await engine.start(runs)
        await until(lambda: begun)
    async with engines.new(runs) as engine:
        assert await engine.handle(run.id).result(10) == 2
