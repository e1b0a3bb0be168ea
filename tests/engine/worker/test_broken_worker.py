"""A worker that dies of a fault of the engine says so to whoever waits for it, and loses nothing."""

from __future__ import annotations

import asyncio
import logging

import pytest

from stepwell import Context, Engine, RunHandle, workflow
from stepwell.engine.worker.leases import Reaper
from stepwell.errors import WorkerBroken
from tests.engines import Engines, suspended


@workflow
async def waits(ctx: Context) -> str:
    return str(await ctx.signal("go"))


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set it, and the next reaping is a bug."""
    reap, planted = Reaper.reap, asyncio.Event()

    async def broken(self: Reaper) -> None:
        if planted.is_set():
            planted.clear()
            raise ZeroDivisionError("a bug of the engine")
        await reap(self)

    monkeypatch.setattr(Reaper, "reap", broken)
    return planted


async def break_down(engine: Engine, fault: asyncio.Event) -> None:
    assert engine._task is not None
    fault.set()
    await asyncio.wait({engine._task})


@pytest.mark.req("K4")
async def test_whoever_waits_for_a_result_is_told(
    engines: Engines, fault: asyncio.Event, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[RunHandle[str]] = []

    async def story() -> None:
        async with engines.new(waits) as engine:
            run = await engine.start(waits)
            runs.append(run)
            await suspended(run)
            waiting = asyncio.ensure_future(run.result())
            await asyncio.sleep(0.05)
            await break_down(engine, fault)
            await asyncio.wait_for(waiting, 5)

    with pytest.raises(WorkerBroken) as caught:
        await story()

    assert caught.value.code == "WORKER_BROKEN"
    assert "a bug of the engine" in str(caught.value)
    assert "another worker" in caught.value.hint
    assert [r for r in caplog.records if r.levelno == logging.CRITICAL and "stopped" in r.message]

    async with engines.new(waits) as engine:  # nothing is lost, and nobody waits for a lease to run out
        again = engine.handle(runs[0].id)
        await again.signal("go", "on")
        assert await again.result(5) == "on"


@pytest.mark.req("K4")
async def test_who_follows_a_run_is_told(memory_engines: Engines, fault: asyncio.Event) -> None:
    async def story() -> None:
        async with memory_engines.new(waits) as engine:
            run = await engine.start(waits)
            await suspended(run)
            await break_down(engine, fault)
            async with asyncio.timeout(5):
                async for _ in run.events(follow=True):
                    pass

    with pytest.raises(WorkerBroken):
        await story()


@pytest.mark.req("K4")
async def test_a_result_that_is_there_is_still_given(memory_engines: Engines, fault: asyncio.Event) -> None:
    @workflow
    async def quick(ctx: Context) -> int:
        return 7

    async def story() -> None:
        async with memory_engines.new(quick) as engine:
            run = await engine.start(quick)
            assert await run.result() == 7
            await break_down(engine, fault)

            assert await engine.handle(run.id).result() == 7

    with pytest.raises(WorkerBroken):  # by the end of the block: it was no good end
        await story()


@pytest.mark.req("K4")
async def test_error_of_the_block_is_not_replaced(memory_engines: Engines, fault: asyncio.Event) -> None:
    async def story() -> None:
        async with memory_engines.new(waits) as engine:
            await break_down(engine, fault)
            raise KeyError("of the user")

    with pytest.raises(KeyError):
        await story()


@pytest.mark.req("K4")
async def test_close_of_a_broken_engine_says_so(memory_engines: Engines, fault: asyncio.Event) -> None:
    engine = memory_engines.new(waits)
    await engine.open()
    await break_down(engine, fault)

    with pytest.raises(WorkerBroken):
        await engine.close()


@pytest.mark.req("K4")
async def test_an_engine_that_is_closed_twice_is_closed(engines: Engines) -> None:
    async with engines.new(waits) as engine:
        await engine.close()
        await engine.close()

    async with engine:
        assert (await engine.start(waits)).id


@pytest.mark.req("K4")
async def test_an_engine_that_is_opened_again_works_again(
    memory_engines: Engines, fault: asyncio.Event
) -> None:
    engine = memory_engines.new(waits)
    await engine.open()
    await break_down(engine, fault)
    with pytest.raises(WorkerBroken):
        await engine.close()

    async with engine:
        run = await engine.start(waits)
        await suspended(run)
        await run.signal("go", "on")
        assert await run.result(5) == "on"
