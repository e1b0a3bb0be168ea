"""Timers that are due at one instant, and a run that is new: each has its share of the worker."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from stepwell import Context, workflow
from stepwell.domain.shares import FreshShare, StartBudget
from tests.stage import SETTINGS, Stage, parked, until

HERD = 120
FEW_SLOTS = replace(SETTINGS, slots=8)


@pytest.mark.slow
@pytest.mark.req("K41", "K21")
async def test_fresh_run_does_not_wait_for_a_herd_of_timers(stage: Stage) -> None:
    order: list[str] = []

    @workflow
    async def sleeper(ctx: Context) -> None:
        await ctx.sleep(2.0)
        order.append("timer")

    @workflow
    async def fresh(ctx: Context) -> None:
        order.append("fresh")

    async with stage.engine(sleeper, fresh) as engine:
        herd = [await engine.start(sleeper) for _ in range(HERD)]
        for run in herd:
            await parked(run)
    async with stage.engine(sleeper, fresh, worker=False) as client:
        await asyncio.sleep(2.0)  # all of them are due now
        late = [await client.start(fresh) for _ in range(4)]
        late_ids, herd_ids = [run.id for run in late], [run.id for run in herd]

    async with stage.engine(sleeper, fresh, settings=FEW_SLOTS) as engine:
        for run_id in (*late_ids, *herd_ids):
            await engine.handle(run_id).result(60)

    turns = [turn for turn, what in enumerate(order) if what == "fresh"]
    assert len(order) == HERD + 4
    assert turns[-1] < HERD // 2, f"the fresh runs had the turns {turns}"


@pytest.mark.slow
@pytest.mark.req("K41", "K21")
async def test_run_that_is_started_while_a_herd_drains_ends_before_it(stage: Stage) -> None:
    order: list[str] = []

    @workflow
    async def sleeper(ctx: Context) -> None:
        await ctx.sleep(2.0)
        await ctx.step(beat)
        order.append("timer")

    async def beat() -> None:
        await asyncio.sleep(0.02)

    @workflow
    async def fresh(ctx: Context) -> None:
        order.append("fresh")

    async with stage.engine(sleeper, fresh) as engine:
        herd = [(await engine.start(sleeper)) for _ in range(HERD)]
        for run in herd:
            await parked(run)
        ids = [run.id for run in herd]
    await asyncio.sleep(2.0)

    async with stage.engine(sleeper, fresh, settings=FEW_SLOTS) as engine:
        await until(lambda: len(order) >= 8)
        await (await engine.start(fresh)).result(60)
        for run_id in ids:
            await engine.handle(run_id).result(60)

    assert order.index("fresh") < HERD // 2


@pytest.mark.req("K41")
def test_share_of_small_claims_adds_up() -> None:
    share = FreshShare(0.25)

    assert [share.of(1) for _ in range(8)] == [0, 0, 0, 1, 0, 0, 0, 1]
    assert [share.of(limit) for limit in (75, 19, 5, 1)] == [18, 5, 1, 1]


@pytest.mark.req("K41")
def test_own_starts_have_no_more_than_their_share_while_others_wait() -> None:
    budget = StartBudget(0.25, slots=100)
    budget.started(25)
    at_first = budget.left

    budget.claimed(30)

    assert (budget.reserved, at_first, budget.left) == (25, 0, 10)
