"""Remote steps: executed by any worker of a queue; the owner goes on when the result arrives."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import Context, Retry, RunFailed, StepContext, step, workflow
from stepwell.domain.status import Status
from stepwell.errors import RunCancelled, StepTimedOut
from tests.stage import Stage, all_events, crash, log, suspended, until


@dataclass
class Picture:
    width: int


@step
async def render(size: int) -> Picture:
    return Picture(size * 2)


@workflow
async def draws(ctx: Context, size: int) -> Picture:
    return await ctx.step.on(queue="gpu")(render, size)


@pytest.mark.req("F6", "K8")
async def test_step_runs_on_a_worker_of_the_queue_and_the_owner_sleeps(stage: Stage) -> None:
    async with stage.engine(draws) as owner:
        run = await owner.start(draws, 4)
        await suspended(run)
        assert "gpu" in (await run.why()).text
        async with stage.engine(steps=[render], queues=["gpu"]):
            assert await run.result(15) == Picture(8)
        assert [line for line in await log(run) if "render" in line] == [
            "step_scheduled 0/render#1",
            "step_completed 0/render#1",
        ]


@pytest.mark.req("F6", "F4")
async def test_many_remote_steps_at_once(stage: Stage) -> None:
    @workflow
    async def many(ctx: Context) -> list[int]:
        gpu = ctx.step.on(queue="gpu")
        return [p.width for p in await ctx.all(*(gpu(render, n) for n in range(20)))]

    async with stage.engine(many) as owner, stage.engine(steps=[render], queues=["gpu"]):
        assert await (await owner.start(many)).result(15) == [2 * n for n in range(20)]


@pytest.mark.req("F6", "K9")
async def test_failed_remote_step_is_tried_again(stage: Stage) -> None:
    @step(retry=Retry(3, delay=0.01), queue="gpu")
    async def flaky(me: StepContext) -> int:
        if me.attempt < 3:
            raise ValueError("again")
        return me.attempt

    @workflow
    async def calls(ctx: Context) -> int:
        return await ctx.step(flaky)

    async with stage.engine(calls) as owner, stage.engine(steps=[flaky], queues=["gpu"]):
        run = await owner.start(calls)
        assert await run.result(15) == 3
        assert [e.attempt for e in await all_events(run) if e.kind == "step_failed"] == [1, 2]


@pytest.mark.req("F6", "K4")
async def test_remote_worker_that_dies_is_replaced(stage: Stage) -> None:
    begun: list[int] = []
    gate = asyncio.Event()

    @step(queue="gpu")
    async def work() -> int:
        begun.append(1)
        if len(begun) == 1:
            await gate.wait()
        return len(begun)

    @workflow
    async def calls(ctx: Context) -> int:
        return await ctx.step(work)

    async with stage.engine(calls) as owner:
        dying = stage.engine(steps=[work], queues=["gpu"])
        await dying.open()
        run = await owner.start(calls)
        await until(lambda: begun)
        await crash(dying)
        async with stage.engine(steps=[work], queues=["gpu"]):
            assert await run.result(15) == 2


@pytest.mark.req("F6", "K12")
async def test_remote_step_times_out_without_any_worker(stage: Stage) -> None:
    @workflow
    async def calls(ctx: Context) -> str:
        try:
            await ctx.step.on(queue="gpu")(render.options(timeout=0.2), 1)
        except StepTimedOut as error:
            return error.path
        return "?"

    async with stage.engine(calls) as owner:
        assert await (await owner.start(calls)).result(15) == "0/render#1"


@pytest.mark.req("F6", "K13")
async def test_cancelled_run_takes_its_remote_step_back(stage: Stage) -> None:
    stopped, begun = asyncio.Event(), asyncio.Event()

    @step(queue="gpu")
    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @workflow
    async def calls(ctx: Context) -> None:
        await ctx.step(endless)

    async with stage.engine(calls) as owner, stage.engine(steps=[endless], queues=["gpu"]):
        run = await owner.start(calls)
        await begun.wait()
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(15)
        assert await owner.store.read_tickets(run.id) == []
        await asyncio.wait_for(stopped.wait(), 10)


@pytest.mark.req("F6", "K11")
async def test_retried_run_sends_its_open_remote_steps_out_again(stage: Stage) -> None:
    broken = True

    async def work() -> str:
        if broken:
            raise ValueError("broken")
        return "fine"

    @workflow
    async def both(ctx: Context) -> list[Any]:
        picture, word = await asyncio.gather(ctx.step.on(queue="gpu")(render, 1), ctx.step(work))
        return [picture.width, word]

    async with stage.engine(both) as owner:
        run = await owner.start(both)
        with pytest.raises(RunFailed):
            await run.result()
        broken = False
        await run.retry()
        async with stage.engine(steps=[render], queues=["gpu"]):
            assert await run.result(15) == [2, "fine"]


@pytest.mark.req("F6", "F9")
async def test_argument_that_cannot_travel_fails_at_the_step(memory: Stage) -> None:
    @workflow
    async def calls(ctx: Context) -> None:
        await ctx.step.on(queue="gpu")(render, object())  # type: ignore[call-overload]  # that is the test

    async with memory.engine(calls) as owner:
        run = await owner.start(calls)
        with pytest.raises(RunFailed, match="argument 'size' of render"):
            await run.result(10)
        assert await run.status() is Status.FAILED
