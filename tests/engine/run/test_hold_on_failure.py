"""on_failure="hold": nothing is undone until a person says so."""

from __future__ import annotations

import pytest

from stepwell import (
    Context,
    RunFailed,
    workflow,
)
from stepwell.domain.status import Status
from stepwell.errors import (
    NotCompensable,
    NotForkable,
    NotRetryable,
    RunNotFound,
)
from tests.engine.run.shop import ORDER, UNDONE, Order, Shop, start, tail
from tests.engines import Engines, all_events, reaches, suspended


@pytest.mark.req("K27", "K11")
async def test_hold_undoes_nothing_and_the_run_can_be_retried(engines: Engines) -> None:
    shop = Shop()
    order = shop.workflow(on_failure="hold")

    async with engines.new(order) as engine:
        run = await start(engine, order)
        with pytest.raises(RunFailed):
            await run.result()
        assert shop.done == ["charge 7", "reserve book 2", "ship"]
        shop.broken = False
        await run.retry()

        assert await run.result() == "shipped"
        assert shop.done == ["charge 7", "reserve book 2", "ship", "ship"]


@pytest.mark.req("K27", "K11")
async def test_what_a_run_held_is_undone_when_a_person_says_so(engines: Engines) -> None:
    shop = Shop()
    order = shop.workflow(on_failure="hold")

    async with engines.new(order) as engine:
        run = await start(engine, order)
        with pytest.raises(RunFailed) as first:
            await run.result()
        shop.done.clear()
        await run.compensate()
        with pytest.raises(RunFailed) as second:
            await run.result()

        assert shop.done == UNDONE
        assert second.value.message == first.value.message
        assert await tail(run, "retried") == [
            "retried",
            "compensation_started",
            "step_completed compensate/0/reserve#1",
            "step_completed compensate/0/charge#1",
            "compensation_completed",
            "failed",
        ]
        with pytest.raises(NotRetryable):
            await run.retry()
        with pytest.raises(NotCompensable, match="already"):
            await run.compensate()
        events = await all_events(run)
        [sent_on] = [event.seq for event in events if event.kind == "retried"]
        with pytest.raises(NotForkable):
            await engine.fork(run, at=sent_on)


@pytest.mark.req("K27")
async def test_only_what_can_be_undone_is_undone_by_hand(memory_engines: Engines) -> None:
    shop = Shop()

    @workflow(on_failure="hold")
    async def shipping(ctx: Context, order: Order) -> str:
        return await ctx.step(shop.ship)

    @workflow(on_failure="hold")
    async def generations(ctx: Context, count: int) -> None:
        if count == 0:
            await ctx.step(shop.charge, ORDER)
            ctx.continue_as_new(1)
        await ctx.step(shop.ship)

    async with memory_engines.new(shipping, generations) as engine:
        run = await engine.start(shipping, ORDER)
        older = await engine.start(generations, 0)
        for handle in (run, older):
            with pytest.raises(RunFailed):
                await handle.result()

            with pytest.raises(NotCompensable, match="nothing to undo"):
                await handle.compensate()
        with pytest.raises(RunNotFound):
            await engine.handle("nobody").compensate()


@pytest.mark.req("K27", "K13")
async def test_hold_is_about_failures_a_cancel_undoes(engines: Engines) -> None:
    shop = Shop()

    @workflow(on_failure="hold")
    async def waiting(ctx: Context, order: Order) -> str:
        await ctx.step(shop.charge, order)
        return await ctx.signal("go", str)

    async with engines.new(waiting) as engine:
        run = await engine.start(waiting, ORDER)
        await suspended(run)
        with pytest.raises(NotCompensable):
            await run.compensate()  # it lives
        await run.cancel()
        await reaches(run, Status.CANCELLED)

    assert shop.done == ["charge 7", "refund r-7 30"]
