"""Cancel: whatever a run is doing, once or twice, with its cleanup and its children."""

from __future__ import annotations

import asyncio
import threading

import pytest

from stepwell import Context, Engine, SyncContext, workflow
from stepwell.domain.commit import RunRow
from stepwell.domain.ids import RunId
from stepwell.domain.status import Status
from stepwell.errors import RunCancelled, RunEnded, RunNotFound
from tests.engines import Engines, crash, kinds, log, reaches, suspended, until


@workflow
async def waiting(ctx: Context) -> str:
    return str(await ctx.signal("go"))


@pytest.mark.req("K13")
async def test_pending_run_ends_at_once_without_a_worker(engines: Engines) -> None:
    async with engines.new(waiting, worker=False) as client:
        run = await client.start(waiting)

        assert await run.cancel("changed my mind") is True
        with pytest.raises(RunCancelled):
            await run.result(5)
        assert await run.status() is Status.CANCELLED
        assert await kinds(run) == ["accepted", "cancelled"]


@pytest.mark.req("K13")
async def test_suspended_run_is_cancelled(engines: Engines) -> None:
    async with engines.new(waiting) as engine:
        run = await engine.start(waiting)
        await suspended(run)

        assert await run.cancel() is True
        with pytest.raises(RunCancelled):
            await run.result()
        with pytest.raises(RunEnded):
            await run.signal("go", 1)


@pytest.mark.req("K13")
async def test_running_step_is_stopped(engines: Engines) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @workflow
    async def busy(ctx: Context) -> None:
        await ctx.step(endless)

    async with engines.new(busy) as engine:
        run = await engine.start(busy)
        await begun.wait()
        await run.cancel("enough")
        with pytest.raises(RunCancelled):
            await run.result()
        await stopped.wait()
        assert "step_completed 0/endless#1" not in await log(run)


@pytest.mark.req("K13")
async def test_cancel_is_idempotent(engines: Engines) -> None:
    async with engines.new(waiting) as engine:
        run = await engine.start(waiting)
        await suspended(run)

        answers = await asyncio.gather(*(run.cancel() for _ in range(5)))
        with pytest.raises(RunCancelled):
            await run.result()

        assert answers.count(True) == 1
        assert await run.cancel() is False
        assert (await kinds(run)).count("cancelled") == 1


@pytest.mark.req("K13")
async def test_unknown_run_cannot_be_cancelled(engines: Engines) -> None:
    async with engines.new(waiting) as engine:
        with pytest.raises(RunNotFound):
            await engine.handle("0" * 32).cancel()


@pytest.mark.req("K13")
async def test_cleanup_in_finally_runs_with_steps(engines: Engines) -> None:
    done: list[str] = []

    @workflow
    async def careful(ctx: Context) -> None:
        try:
            await ctx.step(done.append, "reserve")
            await ctx.signal("go")
        finally:
            await ctx.step(done.append, "release")
            await ctx.sleep(0.01)
            await ctx.step(done.append, "tell")

    async with engines.new(careful) as engine:
        run = await engine.start(careful)
        await suspended(run)
        assert done == ["reserve"]  # suspension is no reason to clean up
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()

    assert done == ["reserve", "release", "tell"]


@pytest.mark.req("K13", "K4")
async def test_cleanup_goes_on_after_a_crash(engines: Engines) -> None:
    done: list[str] = []
    gate = asyncio.Event()

    async def release() -> None:
        done.append("release")
        await gate.wait()

    @workflow
    async def careful(ctx: Context) -> None:
        try:
            await ctx.signal("go")
        finally:
            await ctx.step(done.append, "note")
            await ctx.step(release)

    dying = engines.new(careful)
    await dying.open()
    run = await dying.start(careful)
    await suspended(run)
    await run.cancel()
    await until(lambda: "release" in done)
    await crash(dying)
    gate.set()
    async with engines.new(careful) as engine:
        with pytest.raises(RunCancelled):
            await engine.handle(run.id).result(15)

    assert done == ["note", "release", "release"]


@pytest.mark.req("K13", "F1")
async def test_cleanup_of_a_plain_function_runs(replayed_engines: Engines) -> None:
    done: list[str] = []

    @workflow
    def careful(ctx: SyncContext) -> None:
        try:
            ctx.signal("go")
        finally:
            ctx.step(done.append, "release")

    async with replayed_engines.new(careful) as engine:
        run = await engine.start(careful)
        await suspended(run)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()

    assert done == ["release"]


@pytest.mark.req("K13")
async def test_code_that_swallows_the_cancellation_is_cancelled_all_the_same(memory_engines: Engines) -> None:
    @workflow
    async def stubborn(ctx: Context) -> str:
        try:
            await ctx.signal("go")
        except BaseException:
            pass
        return "I go on"

    async with memory_engines.new(stubborn) as engine:
        run = await engine.start(stubborn)
        await suspended(run)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()


@pytest.mark.req("K13", "K18")
async def test_children_follow_and_grandchildren_too(engines: Engines) -> None:
    @workflow
    async def middle(ctx: Context) -> str:
        return await ctx.run(waiting, None)

    @workflow
    async def top(ctx: Context) -> list[str]:
        return await ctx.all(ctx.run(middle, None), ctx.run(middle, None))

    async with engines.new(top, middle, waiting) as engine:
        run = await engine.start(top)
        await until_runs(engine, 5, Status.SUSPENDED)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
        rows = await until_runs(engine, 5, Status.CANCELLED)

    assert {row.workflow for row in rows} == {"top", "middle", "waiting"}


async def until_runs(engine: Engine, count: int, status: Status) -> list[RunRow]:
    async def there() -> list[RunRow]:
        rows = list(await engine.runs(status=status))
        return rows if len(rows) == count else []

    found: list[RunRow] = await until(there)
    return found


@pytest.mark.req("K13", "K18")
async def test_detached_child_lives_on(engines: Engines) -> None:
    @workflow
    async def top(ctx: Context) -> None:
        child = await ctx.start(waiting, None, detached=True)
        await ctx.step(str, child.id)
        await ctx.signal("never")

    async with engines.new(top, waiting) as engine:
        run = await engine.start(top)
        await suspended(run)
        [child] = [row for row in await engine.runs() if row.workflow == "waiting"]
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
        survivor = engine.handle(RunId(child.id))
        await survivor.signal("go", "on")

        assert await survivor.result() == "on"


@pytest.mark.req("K13")
async def test_cancel_reaches_a_step_in_a_thread(memory_engines: Engines) -> None:
    begun, release = threading.Event(), threading.Event()

    def stuck() -> None:
        begun.set()
        release.wait(20)

    @workflow
    async def busy(ctx: Context) -> None:
        await ctx.step(stuck)

    async with memory_engines.new(busy) as engine:
        run = await engine.start(busy)
        await until(begun.is_set)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(10)
    release.set()


@pytest.mark.req("K13", "K8")
async def test_cancel_by_a_client_without_worker_reaches_a_running_run(durable_engines: Engines) -> None:
    begun = asyncio.Event()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    async def busy(ctx: Context) -> None:
        await ctx.step(endless)

    async with durable_engines.new(busy) as engine, durable_engines.client() as client:
        run = await engine.start(busy)
        await begun.wait()
        await reaches(run, Status.RUNNING)
        await client.handle(run.id).cancel()
        with pytest.raises(RunCancelled):
            await run.result(10)
