"""Timeouts really stop the work: cancelled, abandoned and fenced, or killed."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from stepwell import Context, Retry, RunFailed, StepContext, step, workflow
from stepwell.domain.status import Status
from stepwell.errors import InvalidDefinition, RunTimedOut, StepTimedOut, WaitTimedOut
from stepwell.testing import VirtualEngine
from tests.engine.execution import process_steps
from tests.engines import Engines, kinds, suspended, until


@pytest.mark.req("K12")
async def test_async_step_is_cancelled(memory_engines: Engines) -> None:
    stopped: list[str] = []

    @step(timeout=0.05)
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append("cancelled")
            raise

    @workflow
    async def waits(ctx: Context) -> str:
        try:
            await ctx.step(endless)
        except StepTimedOut as error:
            return f"{error.code} {error.path}"
        return "?"

    async with memory_engines.new(waits) as engine:
        assert await (await engine.start(waits)).result() == "STEP_TIMED_OUT 0/endless#1"

    assert stopped == ["cancelled"]


@pytest.mark.req("K12")
async def test_thread_is_left_behind_and_its_late_result_does_not_count(memory_engines: Engines) -> None:
    release = threading.Event()
    late: list[str] = []

    @step(timeout=0.05)
    def hung() -> str:
        release.wait(20)
        late.append("woke")
        return "too late"

    @workflow
    async def waits(ctx: Context) -> str:
        try:
            return await ctx.step(hung)
        except StepTimedOut:
            release.set()
            await ctx.step(until, lambda: late)
            return "gave up"

    async with memory_engines.new(waits) as engine:
        run = await engine.start(waits)
        assert await run.result() == "gave up"
        found = await kinds(run)

    assert late == ["woke"]
    assert found.count("step_failed") == 1


@pytest.mark.req("K12")
async def test_hung_threads_do_not_starve_other_steps(memory_engines: Engines) -> None:
    release = threading.Event()

    @step(timeout=0.05)
    def hung(n: int) -> None:
        release.wait(20)

    def fine(n: int) -> int:
        return n

    @workflow
    async def many(ctx: Context) -> list[int]:
        for n in range(40):  # more than there are threads
            try:
                await ctx.step(hung, n)
            except StepTimedOut:
                pass
        return await ctx.map(fine, range(10))

    from dataclasses import replace

    from tests.engines import SETTINGS

    async with memory_engines.new(many, settings=replace(SETTINGS, threads=2)) as engine:
        assert await (await engine.start(many)).result() == list(range(10))
    release.set()


@pytest.mark.req("K12", "F7")
async def test_process_is_killed(memory_engines: Engines) -> None:
    @workflow
    async def waits(ctx: Context) -> list[Any]:
        pid = await ctx.step(process_steps.own_pid)
        try:
            await ctx.step(process_steps.hang.options(timeout=0.3))
        except StepTimedOut:
            return [pid, "killed"]
        return []

    async with memory_engines.new(waits) as engine:
        pid, word = await (await engine.start(waits)).result()

        assert word == "killed"
        await until(lambda: not process_steps.exists(pid))


@pytest.mark.req("K12", "K9")
async def test_timeout_is_a_failure_that_retry_counts(memory_engines: Engines) -> None:
    @step(timeout=0.1, retry=Retry(3, delay=0))
    async def slow_at_first(me: StepContext) -> int:
        if me.attempt < 3:
            await asyncio.sleep(30)
        return me.attempt

    @workflow
    async def waits(ctx: Context) -> int:
        return await ctx.step(slow_at_first)

    async with memory_engines.new(waits) as engine:
        assert await (await engine.start(waits)).result() == 3


@pytest.mark.req("K12")
async def test_default_is_five_minutes_and_none_disables() -> None:
    @step
    async def plain() -> None: ...

    @step(timeout=None)
    async def patient() -> None: ...

    assert plain.spec.timeout == 300
    assert patient.spec.timeout is None
    assert plain.options(timeout=None).spec.timeout is None


@pytest.mark.req("K12")
@pytest.mark.parametrize("zero", [0, 0.0, "0s"])
async def test_zero_is_refused_with_a_hint(memory_engines: Engines, zero: Any) -> None:
    @step
    async def plain() -> None: ...

    @workflow
    async def nothing(ctx: Context) -> None: ...

    async with memory_engines.new(nothing) as engine:
        for wrong in (
            lambda: step(timeout=zero),
            lambda: plain.options(timeout=zero),
            lambda: workflow(timeout=zero),
        ):
            with pytest.raises(InvalidDefinition, match="None disables"):
                wrong()
        with pytest.raises(InvalidDefinition, match="None disables"):
            await engine.start(nothing, timeout=zero)


@pytest.mark.req("K12")
async def test_wait_with_timeout_zero_fails_the_run_with_a_hint(memory_engines: Engines) -> None:
    @workflow
    async def waits(ctx: Context) -> None:
        await ctx.signal("x", timeout=0)

    async with memory_engines.new(waits) as engine:
        with pytest.raises(RunFailed, match="None disables"):
            await (await engine.start(waits)).result()


@pytest.mark.req("K12")
async def test_run_timeout_stops_its_steps(engines: Engines) -> None:
    stopped = asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @workflow(timeout=0.6)  # the step must have begun by then
    async def busy(ctx: Context) -> None:
        await ctx.step(endless)

    async with engines.new(busy) as engine:
        run = await engine.start(busy)
        with pytest.raises(RunTimedOut) as caught:
            await run.result()
        await stopped.wait()

        assert caught.value.message.endswith("its timeout of 0.6 s; under way: step 0/endless#1")
        assert "if that alone takes longer, start a new run" in caught.value.hint
        assert await run.status() is Status.TIMED_OUT


@pytest.mark.req("K12")
async def test_suspended_time_does_not_count_for_the_run(engines: Engines) -> None:
    @workflow(timeout=1.0)
    async def patient(ctx: Context) -> str:
        await ctx.step(asyncio.sleep, 0.05)
        word = await ctx.signal("go")
        await ctx.sleep(0.3)
        return str(word)

    async with engines.new(patient) as engine:
        run = await engine.start(patient)
        await suspended(run)
        await asyncio.sleep(1.1)
        await run.signal("go", "on")

        assert await run.result() == "on"


@pytest.mark.req("K12")
async def test_active_time_counts_over_suspensions(engines: Engines) -> None:
    @workflow(timeout=0.8)
    async def busy(ctx: Context) -> None:
        for _ in range(20):
            await ctx.step(asyncio.sleep, 0.15)
            await ctx.sleep(0.01)

    async with engines.new(busy) as engine:
        run = await engine.start(busy)
        with pytest.raises(RunTimedOut):
            await run.result()

        done = (await kinds(run)).count("step_completed")
        assert 1 <= done <= 6


@pytest.mark.req("K12", "F3")
@pytest.mark.parametrize("verb", ["signal", "event", "approval"])
async def test_wait_times_out_not_early(replayed_engines: Engines, verb: str) -> None:
    @workflow
    async def waits(ctx: Context) -> str:
        try:
            if verb == "signal":
                await ctx.signal("x", timeout=0.2)
            elif verb == "event":
                await ctx.event("x", timeout=0.2)
            else:
                await ctx.approval(dict, timeout=0.2)
        except WaitTimedOut as error:
            return error.code
        return "?"

    async with replayed_engines.new(waits) as engine:
        began = time.monotonic()
        assert await (await engine.start(waits)).result() == "WAIT_TIMED_OUT"

    assert time.monotonic() - began >= 0.2


@pytest.mark.req("K12", "K14")
async def test_transactional_step_is_stopped_and_rolled_back(postgres: Engines) -> None:
    @step(transactional=True, timeout=0.3)
    async def slow(connection: Any) -> None:
        await connection.execute("SELECT pg_sleep(20)")

    @workflow
    async def waits(ctx: Context) -> str:
        try:
            await ctx.step(slow)
        except StepTimedOut:
            return "stopped"
        return "?"

    async with postgres.new(waits) as engine:
        assert await (await engine.start(waits)).result(10) == "stopped"


@pytest.mark.req("K12")
async def test_time_in_which_a_run_sleeps_does_not_count_however_often_it_wakes() -> None:
    @workflow(timeout="20s")
    async def sleepy(ctx: Context) -> str:
        for _ in range(4):
            await ctx.sleep("1m")
        return "rested"

    async with VirtualEngine(sleepy) as engine:
        assert await engine.outcome(await engine.start(sleepy)) == "rested"
