"""Compensations that fail, are declared wrongly or cannot be found: it is told, the others are done."""

from __future__ import annotations

import asyncio
import gc

import pytest

from stepwell import (
    Context,
    Retry,
    RunFailed,
    StepContext,
    step,
    workflow,
)
from stepwell.domain.program import Program
from stepwell.errors import (
    InvalidDefinition,
    NotRetryable,
    RunCancelled,
)
from tests.engine.run.shop import ORDER, Order, Shop
from tests.engines import SHORT_LEASE, Engines, all_events, crash, suspended, until


@step
async def cannot(result: int) -> None:
    raise OSError("bank away")


@step(compensate=cannot)
async def do() -> int:
    return 1


@pytest.mark.req("K27", "K9")
async def test_a_compensation_has_its_own_retries(engines: Engines) -> None:
    tries: list[int] = []

    @step(retry=Retry(3, delay=0.05))
    async def undo(me: StepContext, result: int) -> None:
        tries.append(me.attempt)
        if me.attempt < 3:
            raise OSError("bank away")

    @step(compensate=undo)
    async def do() -> int:
        return 1

    @workflow
    async def failing(ctx: Context) -> None:
        await ctx.step(do)
        raise ValueError("no")

    async with engines.new(failing) as engine:
        run = await engine.start(failing)
        with pytest.raises(RunFailed, match="no"):
            await run.result()

        assert tries == [1, 2, 3]
        assert (await run.state()).compensation is not None


@pytest.mark.req("K27")
async def test_one_that_fails_is_told_and_the_others_are_done(engines: Engines) -> None:
    shop = Shop()

    @workflow
    async def failing(ctx: Context, order: Order) -> None:
        await ctx.step(shop.charge, order)
        await ctx.step(do)
        await ctx.step(shop.ship)

    async with engines.new(failing) as engine:
        run = await engine.start(failing, ORDER)
        with pytest.raises(RunFailed) as failure:
            await run.result()

        assert shop.done == ["charge 7", "ship", "refund r-7 30"]
        assert "not undone: 0/do#1" in str(failure.value)
        [completed] = [e for e in await all_events(run) if e.kind == "compensation_completed"]
        assert completed.data["failed"] == ["0/do#1"]
        compensation = (await run.state()).compensation
        assert compensation is not None
        assert compensation.failed == ["0/do#1"]
        why = (await run.why()).text
        assert why.endswith("; not undone: 0/do#1 (OSError: bank away)")


@pytest.mark.req("K27", "K13")
async def test_a_cancelled_run_tells_what_could_not_be_undone(memory_engines: Engines) -> None:
    @workflow
    async def waiting(ctx: Context) -> None:
        await ctx.step(do)
        await ctx.signal("go")

    async with memory_engines.new(waiting) as engine:
        run = await engine.start(waiting)
        await suspended(run)
        await run.cancel("too dear")
        with pytest.raises(RunCancelled, match="not undone: 0/do#1"):
            await run.result()

        told = "the run is cancelled: too dear; not undone: 0/do#1 (OSError: bank away)"
        assert (await run.why()).text == told


@pytest.mark.req("K27", "K14")
async def test_what_a_late_compensation_declares_is_checked() -> None:
    async def too_many(result: int, a: int, b: int) -> None: ...

    with pytest.raises(InvalidDefinition, match="requires 3 arguments; there are 2"):

        @step(compensate=too_many)
        async def do(n: int) -> int:
            return n

    with pytest.raises(InvalidDefinition, match="on_failure"):

        @workflow(on_failure="ignore")  # type: ignore[call-overload, untyped-decorator]  # the test
        async def wrong(ctx: Context) -> None: ...


@pytest.mark.req("K27", "F8")
async def test_a_function_that_the_code_lost_is_told(engines: Engines) -> None:
    def declared() -> Program:
        async def undo(n: int) -> None: ...

        @step(compensate=undo, name="do")
        async def do(n: int) -> int:
            return n

        @workflow(name="saga")
        async def saga(ctx: Context) -> None:
            await ctx.step(do, 1)
            await ctx.signal("go")

        return saga

    @step(name="do")
    async def other(n: int) -> int:
        return n

    @workflow(name="saga")
    async def later(ctx: Context) -> None:
        await ctx.step(other, 1)
        await ctx.signal("go")

    first = declared()
    async with engines.new(first) as engine:
        run = await engine.start("saga")
        await suspended(run)
    run_id = run.id
    del first, engine, run
    gc.collect()  # as in a process that never loaded it
    async with engines.new(later) as engine:
        run = engine.handle(run_id)
        await run.cancel()
        with pytest.raises(RunCancelled, match="not undone"):
            await run.result(15)


@pytest.mark.req("K11", "K27", "K33")
async def test_undoing_that_lost_its_workers_goes_on_when_it_is_retried(memory_engines: Engines) -> None:
    begun: list[str] = []
    undone: list[str] = []
    deadly = True

    @step
    async def undo(result: str) -> None:
        begun.append(result)
        if result == "first" and deadly:
            await asyncio.Event().wait()
        undone.append(result)

    @step(compensate=undo)
    async def do(name: str) -> str:
        return name

    @workflow
    async def failing(ctx: Context) -> None:
        await ctx.step(do, "first")
        await ctx.step(do, "second")
        raise ValueError("no")

    async with memory_engines.client() as client:
        run = await client.start(failing)
        for death in (1, 2, 3):
            dying = memory_engines.new(failing, settings=SHORT_LEASE)
            await dying.open()
            await until(lambda: begun.count("first") == death)  # noqa: B023  # awaited at once
            await crash(dying, found_dead=False)
        async with memory_engines.new(failing) as engine:
            handle = engine.handle(run.id, failing)
            with pytest.raises(RunFailed, match="workers died"):
                await handle.result()
            deadly = False

            await handle.retry()

            with pytest.raises(RunFailed, match="no"):
                await handle.result()
            assert undone == ["second", "first"]
            with pytest.raises(NotRetryable, match="has been compensated"):
                await handle.retry()
