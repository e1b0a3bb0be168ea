"""Remote steps: executed by any worker of a queue; the owner goes on when the result arrives."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import Context, Permanent, Retry, RetryAfter, RunFailed, StepContext, StepError, step, workflow
from stepwell.domain.status import Status
from stepwell.engine.run.journal import read_journal
from stepwell.engine.worker.remote_step import RemoteStep
from stepwell.errors import RunCancelled, RunTimedOut, StepTimedOut
from tests.engines import Engines, all_events, crash, log, parked, suspended, until


@dataclass
class Picture:
    width: int


@step
async def render(size: int) -> Picture:
    return Picture(size * 2)


@workflow
async def draws(ctx: Context, size: int) -> Picture:
    return await ctx.step.on(queue="gpu")(render, size)


@pytest.mark.req("F6", "K7", "K8")
async def test_step_runs_on_a_worker_of_the_queue_and_the_owner_sleeps(engines: Engines) -> None:
    async with engines.new(draws) as owner:
        run = await owner.start(draws, 4)
        await parked(run)
        assert await run.status() is Status.RUNNING
        assert (await run.state()).status is Status.RUNNING
        assert "gpu" in (await run.why()).text
        async with engines.new(steps=[render], queues=["gpu"]):
            assert await run.result(15) == Picture(8)
        assert [line for line in await log(run) if "render" in line] == [
            "step_scheduled 0/render#1",
            "step_completed 0/render#1",
        ]


@pytest.mark.req("F6", "F4")
async def test_many_remote_steps_at_once(engines: Engines) -> None:
    @workflow
    async def many(ctx: Context) -> list[int]:
        gpu = ctx.step.on(queue="gpu")
        return [p.width for p in await ctx.all(*(gpu(render, n) for n in range(20)))]

    async with engines.new(many) as owner, engines.new(steps=[render], queues=["gpu"]):
        assert await (await owner.start(many)).result(15) == [2 * n for n in range(20)]


@pytest.mark.req("F6", "K9")
async def test_failed_remote_step_is_tried_again(engines: Engines) -> None:
    @step(retry=Retry(3, delay=0.01), queue="gpu")
    async def flaky(me: StepContext) -> int:
        if me.attempt < 3:
            raise ValueError("again")
        return me.attempt

    @workflow
    async def calls(ctx: Context) -> int:
        return await ctx.step(flaky)

    async with engines.new(calls) as owner, engines.new(steps=[flaky], queues=["gpu"]):
        run = await owner.start(calls)
        assert await run.result(15) == 3
        assert [e.attempt for e in await all_events(run) if e.kind == "step_failed"] == [1, 2]


@pytest.mark.req("F6", "K4")
async def test_remote_worker_that_dies_is_replaced(engines: Engines) -> None:
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

    async with engines.new(calls) as owner:
        dying = engines.new(steps=[work], queues=["gpu"])
        await dying.open()
        run = await owner.start(calls)
        await until(lambda: begun)
        await crash(dying)
        async with engines.new(steps=[work], queues=["gpu"]):
            assert await run.result(15) == 2


@pytest.mark.req("F6", "K12")
async def test_remote_step_times_out_without_any_worker(engines: Engines) -> None:
    @workflow
    async def calls(ctx: Context) -> str:
        try:
            await ctx.step.on(queue="gpu")(render.options(timeout=0.2), 1)
        except StepTimedOut as error:
            return error.path
        return "?"

    async with engines.new(calls) as owner:
        assert await (await owner.start(calls)).result(15) == "0/render#1"


@pytest.mark.req("F6", "K12")
async def test_the_time_of_a_remote_step_counts_for_the_run(engines: Engines) -> None:
    @workflow(timeout=0.3)
    async def calls(ctx: Context) -> None:
        await ctx.step.on(queue="gpu")(render, 1)

    async with engines.new(calls) as owner:
        run = await owner.start(calls)
        with pytest.raises(RunTimedOut):
            await run.result(15)
        assert [ticket.path for ticket in await owner.store.read_tickets(run.id)] == []


@pytest.mark.req("F6", "F4", "K12")
async def test_a_remote_step_that_lost_a_race_is_work_no_more(engines: Engines) -> None:
    @workflow
    async def races(ctx: Context) -> str:
        await ctx.first(ctx.step.on(queue="gpu")(render, 1), ctx.signal("skip"))
        return str(await ctx.signal("go"))

    async with engines.new(races) as owner:
        run = await owner.start(races)
        await parked(run)
        await run.signal("skip")
        await suspended(run)
        assert (await run.state()).status is Status.SUSPENDED
        assert "wait_ended 0~1/render#1" in await log(run)
        rows = [row async for row in run.log()]
        assert read_journal(rows, rows[-1].at + 1e6).active_seconds < 1e6  # nor does its time count
        await run.signal("go", "on")
        assert await run.result(15) == "on"


@pytest.mark.req("F6", "K13")
async def test_cancelled_run_takes_its_remote_step_back(engines: Engines) -> None:
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

    async with engines.new(calls) as owner, engines.new(steps=[endless], queues=["gpu"]):
        run = await owner.start(calls)
        await begun.wait()
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(15)
        assert await owner.store.read_tickets(run.id) == []
        await asyncio.wait_for(stopped.wait(), 10)


@pytest.mark.req("F6", "K11")
async def test_retried_run_sends_its_open_remote_steps_out_again(engines: Engines) -> None:
    broken = True

    async def work() -> str:
        if broken:
            raise ValueError("broken")
        return "fine"

    @workflow
    async def both(ctx: Context) -> list[Any]:
        picture, word = await asyncio.gather(ctx.step.on(queue="gpu")(render, 1), ctx.step(work))
        return [picture.width, word]

    async with engines.new(both) as owner:
        run = await owner.start(both)
        with pytest.raises(RunFailed):
            await run.result()
        broken = False
        await run.retry()
        async with engines.new(steps=[render], queues=["gpu"]):
            assert await run.result(15) == [2, "fine"]


@pytest.mark.req("F6", "F9")
async def test_argument_that_cannot_travel_fails_at_the_step(memory_engines: Engines) -> None:
    @workflow
    async def calls(ctx: Context) -> None:
        await ctx.step.on(queue="gpu")(render, object())  # type: ignore[call-overload]  # that is the test

    async with memory_engines.new(calls) as owner:
        run = await owner.start(calls)
        with pytest.raises(RunFailed, match="argument 'size' of render"):
            await run.result(10)
        assert await run.status() is Status.FAILED


@step(name="fussy")
async def fussy_here(me: StepContext) -> int:
    raise AssertionError("runs elsewhere")


@step(name="fussy", retry=Retry(5, delay=0))
async def fussy_there(me: StepContext) -> int:
    if me.attempt < 3:
        raise KeyError("again")
    return me.attempt


@pytest.mark.req("F6", "K9")
@pytest.mark.parametrize("attempts", [1, 2, 3])
async def test_retry_of_the_call_counts_not_that_of_the_worker(engines: Engines, attempts: int) -> None:
    """The worker's own copy says five; the caller's says what it says."""

    @workflow
    async def calls(ctx: Context) -> str:
        try:
            patient = fussy_here.options(retry=Retry(attempts, delay=0.01, on=(LookupError,)))
            return str(await ctx.step.on(queue="gpu")(patient))
        except StepError as error:
            return error.error_type

    async with engines.new(calls) as owner, engines.new(steps=[fussy_there], queues=["gpu"]):
        run = await owner.start(calls)

        assert await run.result(15) == ("3" if attempts == 3 else "KeyError")
        tried = [e.attempt for e in await all_events(run) if e.kind in ("step_failed", "step_completed")]
        assert tried == list(range(1, attempts + 1))


@pytest.mark.req("F6", "K10")
@pytest.mark.parametrize("policy", ["never", "on"])
async def test_classes_of_a_remote_error_decide_at_the_caller(memory_engines: Engines, policy: str) -> None:
    retry = Retry(3, delay=0.01, **{policy: (LookupError,) if policy == "never" else (OSError,)})  # type: ignore[arg-type]  # one of two

    @workflow
    async def calls(ctx: Context) -> None:
        await ctx.step.on(queue="gpu")(fussy_here.options(retry=retry))

    async with memory_engines.new(calls) as owner, memory_engines.new(steps=[fussy_there], queues=["gpu"]):
        run = await owner.start(calls)
        with pytest.raises(RunFailed):
            await run.result(15)

        assert [e.kind for e in await all_events(run)].count("step_failed") == 1


@pytest.mark.req("F6", "K10")
@pytest.mark.parametrize(
    "error", [Permanent("no"), RetryAfter(0.01, "soon")], ids=["permanent", "retry after"]
)
async def test_what_a_remote_step_says_of_its_error_arrives(
    memory_engines: Engines, error: Exception
) -> None:
    @step(queue="gpu", retry=Retry(2, delay="1h"))
    async def says(me: StepContext) -> int:
        if me.attempt == 1:
            raise error
        return me.attempt

    @workflow
    async def calls(ctx: Context) -> Any:
        try:
            return await ctx.step(says)
        except StepError:
            return "gave up"

    async with memory_engines.new(calls) as owner, memory_engines.new(steps=[says], queues=["gpu"]):
        wanted = "gave up" if isinstance(error, Permanent) else 2
        assert await (await owner.start(calls)).result(15) == wanted


@pytest.mark.req("F6", "K11")
async def test_attempts_begin_anew_when_a_person_sends_the_run_on(engines: Engines) -> None:
    @step(queue="gpu", retry=Retry(2, delay=0.01))
    async def shaky(me: StepContext) -> int:
        if me.attempt < 4:
            raise ValueError("again")
        return me.attempt

    @workflow
    async def calls(ctx: Context) -> int:
        return await ctx.step(shaky)

    async with engines.new(calls) as owner, engines.new(steps=[shaky], queues=["gpu"]):
        run = await owner.start(calls)
        with pytest.raises(RunFailed):
            await run.result(15)
        await run.retry()

        assert await run.result(15) == 4
        failures = [e for e in await all_events(run) if e.kind == "step_failed"]
        assert [e.attempt for e in failures] == [1, 2, 3]
        assert [e.data.get("retry_in") is None for e in failures] == [False, True, False]


@pytest.mark.req("F6", "K12")
async def test_timeout_of_the_call_counts_not_that_of_the_worker(memory_engines: Engines) -> None:
    @step(name="slow")
    async def slow_here() -> str:
        raise AssertionError("runs elsewhere")

    @step(name="slow", timeout=0.1)
    async def slow_there() -> str:
        await asyncio.sleep(0.5)
        return "done"

    @workflow
    async def calls(ctx: Context) -> str:
        return await ctx.step.on(queue="gpu")(slow_here.options(timeout=20))

    async with memory_engines.new(calls) as owner, memory_engines.new(steps=[slow_there], queues=["gpu"]):
        assert await (await owner.start(calls)).result(15) == "done"


@pytest.mark.req("F6", "K4")
async def test_ticket_that_a_worker_cannot_take_up_is_answered(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, tries = RemoteStep.begin, []

    def broken_once(self: RemoteStep) -> None:
        tries.append(self.claim.path)
        if len(tries) == 1:
            raise RuntimeError("this worker is broken")
        begin(self)

    monkeypatch.setattr(RemoteStep, "begin", broken_once)

    @workflow
    async def calls(ctx: Context) -> list[Any]:
        gpu = ctx.step.on(queue="gpu")
        try:
            await gpu(render, 1)
        except StepError as error:
            return [error.error_type, (await gpu(render, 2)).width]
        return []

    async with engines.new(calls) as owner, engines.new(steps=[render], queues=["gpu"]):
        run = await owner.start(calls)

        assert await run.result(15) == ["RuntimeError", 4]
        [failed] = [e for e in await all_events(run) if e.kind == "step_failed"]
        assert failed.data["error"]["code"] == "STEP_NOT_BEGUN"
        assert failed.data["error"]["hint"]
