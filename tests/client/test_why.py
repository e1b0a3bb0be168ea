"""why(): the exact reason a run does not move."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace

import pytest

from stepwell import Context, RunHandle, workflow
from stepwell.client import handle
from stepwell.domain.status import Status
from stepwell.store.memory import MemoryStore
from stepwell.testing.clock import FakeClock
from tests.engines import SETTINGS, Engines, crash, reaches, suspended, until


@workflow
async def waits(ctx: Context, what: str) -> str:
    match what:
        case "signal":
            return str(await ctx.signal("approve", timeout="1h"))
        case "event":
            return str(await ctx.event("mail"))
        case "approval":
            return str(await ctx.approval(str, name="boss"))
        case "sleep":
            await ctx.sleep("1h")
        case "child":
            return await ctx.run(waits, "signal")
    return what


@pytest.mark.req("K28")
@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("signal", "signal 'approve' until"),
        ("event", "event 'mail'"),
        ("approval", "approval 'boss'"),
        ("sleep", "a timer until"),
        ("child", "child run"),
    ],
)
async def test_wait_is_named_with_its_time(engines: Engines, what: str, text: str) -> None:
    async with engines.new(waits) as engine:
        run = await engine.start(waits, what)
        await suspended(run)

        reason = await run.why()

        assert reason.code == "waits"
        assert text in reason.text
        if "until" in text:
            assert reason.until is not None
            assert 3500 < reason.until - time.time() < 3700


@pytest.mark.req("K28")
async def test_lease_is_named_with_its_worker_and_step(engines: Engines) -> None:
    begun = asyncio.Event()

    async def long_step() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    async def busy(ctx: Context) -> None:
        await ctx.step(long_step)

    async with engines.new(busy, settings=replace(SETTINGS, grace_seconds=0.1)) as engine:
        run = await engine.start(busy)
        await begun.wait()

        async def told() -> bool:
            return "0/long_step#1" in (await run.why()).text

        await until(told)
        reason = await run.why()

        assert reason.code == "lease"
        assert reason.until is not None
        assert reason.until > time.time()
        await run.cancel()


@pytest.mark.req("K28")
async def test_lease_that_ran_out_is_not_told_as_if_it_lasted() -> None:
    begun, clock = asyncio.Event(), FakeClock()
    engines = Engines("memory", MemoryStore(clock))
    lazy = replace(SETTINGS, reap_seconds=600)  # nobody takes it over while the test looks

    async def long_step() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    async def busy(ctx: Context) -> None:
        await ctx.step(long_step)

    engine = engines.new(busy, settings=lazy)
    await engine.open()
    run = await engine.start(busy)
    await begun.wait()
    await crash(engine, found_dead=False)
    clock.advance(lazy.lease_seconds)

    async with engines.client() as client:
        alone = await client.handle(run.id).why()
    async with engines.new(busy, settings=lazy) as two:
        beside = await two.handle(run.id).why()

    assert (alone.code, alone.until, beside.code, beside.until) == ("lease", None, "lease", None)
    assert "ran out at" in alone.text
    assert "no other worker" in alone.text
    assert beside.text.endswith(f":{os.getpid()} takes it over after the next sweep")


@pytest.mark.req("K28")
async def test_workers_whose_leases_ran_out_do_not_count_as_running() -> None:
    clock = FakeClock()
    engines = Engines("memory", MemoryStore(clock))
    engine = engines.new(waits)
    await engine.open()
    await crash(engine, found_dead=False)
    clock.advance(SETTINGS.lease_seconds)

    async with engines.new(waits, worker=False) as client:
        reason = await (await client.start(waits, "x")).why()

    assert reason.code == "no_worker"
    assert reason.text.startswith("no worker is running: ")
    assert "ran out at" in reason.text


@pytest.mark.req("K28")
async def test_missing_worker_version_queue_slot_and_delay_are_told_apart(engines: Engines) -> None:
    async with engines.new(waits, worker=False) as client:
        run = await client.start(waits, "x")
        late = await client.start(waits, "x", delay="1h")
        assert (await run.why()).text == "no worker is running"
        assert (await late.why()).code == "delayed"

    @workflow(name="other")
    async def other(ctx: Context) -> None: ...

    async with engines.new(other) as engine:
        reason = await engine.handle(run.id).why()
        assert reason.code == "no_worker"
        assert "waits@1" in reason.text
    async with engines.new(waits, queues=["elsewhere"]) as engine:
        reason = await engine.handle(run.id).why()
        assert (reason.code, "default" in reason.text) == ("no_worker", True)


@pytest.mark.req("K28")
async def test_full_worker_is_told(memory_engines: Engines) -> None:
    gate = asyncio.Event()

    @workflow
    async def busy(ctx: Context) -> None:
        await ctx.step(gate.wait)

    async with memory_engines.new(busy, settings=replace(SETTINGS, slots=1)) as engine:
        first = await engine.start(busy)
        await reaches(first, Status.RUNNING)
        second = await engine.start(busy)
        assert (await second.why()).code == "queued"
        gate.set()
        await second.result()
        assert (await second.why()).code == "ended"


@pytest.mark.req("K28", "F6")
async def test_a_remote_step_that_nobody_can_take_is_told(engines: Engines) -> None:
    @workflow
    async def sends(ctx: Context) -> int:
        return await ctx.step.on(queue="gpu")(abs, -3)

    async with engines.new(sends) as engine:
        run = await engine.start(sends)
        await until(lambda: _says(run, "no worker of that queue is running"))
        async with engines.new(steps=[len], queues=["gpu"]):
            assert "no worker there has it" in (await run.why()).text
        async with engines.new(steps=[abs], queues=["gpu"]):
            assert await run.result(30) == 3


async def _says(run: RunHandle[int], text: str) -> bool:
    return text in (await run.why()).text


@pytest.mark.req("K28")
async def test_the_log_of_what_completed_or_is_queued_is_not_read(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with engines.new(waits) as engine:
        ended = await engine.start(waits, "")
        await ended.result()
        queued = await engine.start(waits, "", queue="elsewhere")
        monkeypatch.setattr(engine.store, "read_log", None)

        assert (await ended.why()).text == "the run is completed"
        assert "elsewhere" in (await queued.why()).text


@pytest.mark.req("K28")
async def test_whoever_waits_for_a_run_that_nobody_runs_is_told(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @workflow
    async def alone(ctx: Context) -> None: ...

    monkeypatch.setattr(handle, "_FRESH_SECONDS", 0.01)
    monkeypatch.setattr(handle, "_LOOK_SECONDS", 0.01)
    async with engines.new() as engine:
        run = await engine.start(alone)
        waiting = asyncio.create_task(run.result())
        await until(lambda: caplog.records)
        waiting.cancel()

    [told] = caplog.messages
    assert told.startswith(f"run {run.id} has not begun: no worker")
    assert "workflows=[...]" in told
