"""What workflow code cannot have: told with a hint, instead of a run that cannot be replayed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell import Context, RunFailed, workflow
from tests.stage import Stage


async def nap(ctx: Context) -> None:
    await asyncio.sleep(0.01)


async def threaded(ctx: Context) -> None:
    await asyncio.to_thread(str, 1)


async def executor(ctx: Context) -> None:
    await asyncio.get_running_loop().run_in_executor(None, str, 1)


async def time_box(ctx: Context) -> None:
    async with asyncio.timeout(1):
        await ctx.step(str, 1)


async def wait_for(ctx: Context) -> None:
    await asyncio.wait_for(ctx.step(str, 1), 1)


async def socket(ctx: Context) -> None:
    await asyncio.open_connection("localhost", 1)


async def program(ctx: Context) -> None:
    await asyncio.create_subprocess_exec("true")


async def event(ctx: Context) -> None:
    await asyncio.Event().wait()


async def future(ctx: Context) -> None:
    await asyncio.get_running_loop().create_future()


@pytest.mark.req("F2", "F1")
@pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited", "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (nap, "ctx.sleep"),
        (threaded, "ctx.step"),
        (executor, "ctx.step"),
        (time_box, "timeout="),
        (wait_for, "ctx.first"),
        (socket, "ctx.step"),
        (program, "ctx.step"),
        (event, "ctx verbs"),
        (future, "ctx verbs"),
    ],
)
async def test_misuse_fails_the_run_with_a_hint(
    memory: Stage, body: Callable[[Context], Awaitable[Any]], hint: str
) -> None:
    bad = workflow(body)

    async with memory.engine(bad) as engine:
        run = await engine.start(bad)
        with pytest.raises(RunFailed) as caught:
            await run.result(10)
    gc.collect()  # what the misuse left behind is warned about here, not in the next test

    assert caught.value.cause_code == "NOT_DURABLE"
    assert hint in caught.value.hint


@pytest.mark.req("F2")
async def test_sleep_zero_is_a_turn_and_is_allowed(rehearsal: Stage) -> None:
    @workflow
    async def polite(ctx: Context) -> int:
        await asyncio.sleep(0)
        return await ctx.step(lambda: 1)

    async with rehearsal.engine(polite) as engine:
        assert await (await engine.start(polite)).result() == 1
