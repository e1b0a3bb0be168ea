"""A run that is being given back begins nothing more, however long the giving back takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from stepwell import Context, Retry, StepContext, step, workflow
from stepwell.domain.commit import Commit, Committed, Park
from stepwell.store.memory import MemoryStore
from tests.engines import SETTINGS, Engines, kinds, until

KEEPS = replace(SETTINGS, keep_lease_seconds=5.0)  # short waits are waited out, so a timer is armed


class SlowPark(MemoryStore):
    """A database that takes its time to let a run go."""

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Committed]:
        if any(isinstance(commit.then, Park) for commit in batch):
            await asyncio.sleep(1.0)
        return await super().commit(batch)


def shaky_step(begun: list[int]) -> Any:
    """Fails once; its second attempt is under way for longer than a run takes to park."""

    @step(retry=Retry(2, delay=0.5))
    async def shaky(me: StepContext) -> int:
        begun.append(me.attempt)
        if me.attempt == 1:
            raise ValueError("once")
        await asyncio.sleep(0.7)
        return me.attempt

    return shaky


@pytest.mark.req("K9", "K34")
async def test_retry_that_is_due_while_its_run_is_given_back_is_left_to_the_next_owner() -> None:
    engines = Engines("memory", SlowPark(time.time))
    begun: list[int] = []
    shaky = shaky_step(begun)

    @workflow
    async def calls(ctx: Context) -> int:
        return await ctx.step(shaky)

    async with engines.new(calls, settings=KEEPS) as engine:
        run = await engine.start(calls)

        async def failed_once() -> bool:
            return "step_failed" in await kinds(run)

        await until(failed_once)
    async with engines.new(calls, settings=KEEPS) as engine:
        assert await engine.handle(run.id).result() == 2

    assert begun == [1, 2]


@pytest.mark.req("K9")
async def test_retry_that_is_due_while_its_run_parks_begins_once() -> None:
    engines = Engines("memory", SlowPark(time.time))
    begun: list[int] = []
    shaky = shaky_step(begun)

    @workflow
    async def both(ctx: Context) -> list[object]:
        return list(await ctx.all(ctx.step(shaky), ctx.step(asyncio.sleep, 0.1)))

    async with engines.new(both) as engine:
        assert await (await engine.start(both)).result() == [2, None]

    assert begun == [1, 2]


@pytest.mark.req("K9", "K34")
async def test_stopping_worker_begins_no_retry_while_another_step_ends(memory_engines: Engines) -> None:
    begun: list[str] = []
    gate = asyncio.Event()

    @step(retry=Retry(2, delay=1.0))
    async def shaky(me: StepContext) -> int:
        begun.append(f"shaky {me.attempt}")
        if me.attempt == 1:
            raise ValueError("once")
        return me.attempt

    async def slow() -> str:
        begun.append("slow")
        await gate.wait()
        return "slow"

    @workflow
    async def both(ctx: Context) -> list[object]:
        return list(await ctx.all(ctx.step(shaky), ctx.step(slow)))

    stopping = memory_engines.new(both, settings=KEEPS)
    await stopping.open()
    run = await stopping.start(both)

    async def failed_once() -> bool:
        return "step_failed" in await kinds(run)

    await until(failed_once)
    closing = asyncio.ensure_future(stopping.close())
    await asyncio.sleep(1.2)  # the retry's time comes and goes
    here = list(begun)
    gate.set()
    await closing
    async with memory_engines.new(both, settings=KEEPS) as engine:
        assert await engine.handle(run.id).result() == [2, "slow"]

    assert sorted(here) == ["shaky 1", "slow"]
    assert sorted(begun) == ["shaky 1", "shaky 2", "slow"]
