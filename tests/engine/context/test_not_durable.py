"""What workflow code cannot have: told with a hint, instead of a run that cannot be replayed."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell import Context, Engine, RunFailed, SyncClient, workflow
from stepwell.domain.codec import codec_for
from stepwell.errors import InvalidInput
from tests.engines import Engines


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
    memory_engines: Engines, body: Callable[[Context], Awaitable[Any]], hint: str
) -> None:
    bad = workflow(body)

    async with memory_engines.new(bad) as engine:
        run = await engine.start(bad)
        with pytest.raises(RunFailed) as caught:
            await run.result(10)
    gc.collect()  # what the misuse left behind is warned about here, not in the next test

    assert caught.value.cause_code == "NOT_DURABLE"
    assert hint in caught.value.hint


@pytest.mark.req("F2")
async def test_sleep_zero_is_a_turn_and_is_allowed(replayed_engines: Engines) -> None:
    @workflow
    async def polite(ctx: Context) -> int:
        await asyncio.sleep(0)
        return await ctx.step(lambda: 1)

    async with replayed_engines.new(polite) as engine:
        assert await (await engine.start(polite)).result() == 1


held: list[Engine] = []


@workflow
async def asking_an_engine(ctx: Context, verb: str) -> None:
    engine = held[0]
    if verb == "sync":
        with SyncClient(engine=Engine(":memory:")) as client:
            client.runs()
    elif verb == "runs":
        await engine.runs()
    else:
        await engine.start(asking_an_engine, "not at all")


@pytest.mark.req("F2", "K1")
async def test_a_client_in_workflow_code_is_refused_and_harms_nobody(engines: Engines) -> None:
    """Its answer would have been given to a loop that takes none; SQLite's writer died of that."""

    async def other(ctx: Context) -> int:
        return await ctx.step(int, "42")

    wholesome = workflow(other)
    before = set(threading.enumerate())
    async with engines.new(asking_an_engine, wholesome) as engine:
        held[:] = [engine]
        for verb in ("start", "runs", "sync"):
            run = await engine.start(asking_an_engine, verb)
            with pytest.raises(RunFailed, match="used an engine or client") as caught:
                await run.result(timeout=40)
            assert "ctx.start" in caught.value.hint

        assert await (await engine.start(wholesome)).result(timeout=40) == 42
        assert len(await engine.runs(workflow="asking_an_engine")) == 3
    assert "stepwell-client" not in {thread.name for thread in set(threading.enumerate()) - before}


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.req("K4", "F2")
async def test_an_error_that_cannot_be_told_ends_the_run_all_the_same(replayed_engines: Engines) -> None:
    async def fail() -> None:
        raise Speechless

    async def failing(ctx: Context, in_step: bool) -> None:
        if in_step:
            await ctx.step(fail)
        await fail()

    flow = workflow(failing)
    async with replayed_engines.new(flow) as engine:
        for in_step in (True, False):
            with pytest.raises(RunFailed, match="its text is not available"):
                await (await engine.start(flow, in_step)).result(timeout=40)


@pytest.mark.req("F9")
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_lacks_is_named(value: float) -> None:
    with pytest.raises(InvalidInput, match="no NaN and no infinity"):
        codec_for(float).encode(value)
