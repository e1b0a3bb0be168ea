"""Timers that are due at one instant, and a run that is new: each has its share of the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, cast

import pytest

from stepwell import Context, workflow
from stepwell.domain.commit import Claim, ClaimRequest, Claims
from stepwell.domain.ids import LeaseId, RunId, WorkerId
from stepwell.domain.shares import FreshShare, StartBudget
from stepwell.engine.worker.claimer import Claimer
from stepwell.system import SystemIds
from stepwell.telemetry.measures import WorkerMeasures
from stepwell.testing import FakeClock
from tests.engines import SETTINGS, Engines, parked, until

HERD = 120
FEW_SLOTS = replace(SETTINGS, slots=8)


@pytest.mark.slow
@pytest.mark.req("K41", "K21")
async def test_fresh_run_does_not_wait_for_a_herd_of_timers(engines: Engines) -> None:
    order: list[str] = []

    @workflow
    async def sleeper(ctx: Context) -> None:
        await ctx.sleep(2.0)
        order.append("timer")

    @workflow
    async def fresh(ctx: Context) -> None:
        order.append("fresh")

    async with engines.new(sleeper, fresh) as engine:
        herd = [await engine.start(sleeper) for _ in range(HERD)]
        for run in herd:
            await parked(run)
    async with engines.new(sleeper, fresh, worker=False) as client:
        await asyncio.sleep(2.0)  # all of them are due now
        late = [await client.start(fresh) for _ in range(4)]
        late_ids, herd_ids = [run.id for run in late], [run.id for run in herd]

    async with engines.new(sleeper, fresh, settings=FEW_SLOTS) as engine:
        for run_id in (*late_ids, *herd_ids):
            await engine.handle(run_id).result(60)

    turns = [turn for turn, what in enumerate(order) if what == "fresh"]
    assert len(order) == HERD + 4
    assert turns[-1] < HERD // 2, f"the fresh runs had the turns {turns}"


@pytest.mark.slow
@pytest.mark.req("K41", "K21")
async def test_run_that_is_started_while_a_herd_drains_ends_before_it(engines: Engines) -> None:
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

    async with engines.new(sleeper, fresh) as engine:
        herd = [(await engine.start(sleeper)) for _ in range(HERD)]
        for run in herd:
            await parked(run)
        ids = [run.id for run in herd]
    await asyncio.sleep(2.0)

    async with engines.new(sleeper, fresh, settings=FEW_SLOTS) as engine:
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


class Herd:
    """A store with no end of runs that have begun and are due, and a worker on it that keeps what it gets."""

    def __init__(self) -> None:
        self.asked: list[ClaimRequest] = []
        self.held: list[LeaseId] = []
        self.clock = FakeClock()
        self.claimer = Claimer(
            cast(Any, self),
            self.clock,
            SystemIds(),
            queues=[],
            needs=[],
            poll_seconds=600,
            solo_seconds=1,
            fresh_share=0.25,
            slots=48,
            active=lambda: len(self.held),
            worker=lambda: WorkerId("w"),
            begin=self._begin,
            begin_late=self._begin,
            measures=WorkerMeasures(),
        )

    async def claim(self, request: ClaimRequest) -> Claims:
        self.asked.append(request)
        taken = [Claim(RunId(lease), "", "", lease, 9, 0, 0, "", (), ()) for lease in request.leases]
        return Claims(taken, 0.0, 0.0)

    def _begin(self, claim: Claim, now: float) -> None:
        self.held.append(claim.lease)

    def end(self, count: int) -> None:
        for lease in self.held[-count:]:
            self.held.remove(lease)
            self.claimer.freed(lease)

    async def claims(self) -> list[tuple[int, int]]:
        """What was asked for since, each with the places of fresh runs."""
        for _ in range(20):
            await asyncio.sleep(0)
        found = [(request.limit, request.fresh) for request in self.asked]
        self.asked.clear()
        return found


@asynccontextmanager
async def crowded() -> AsyncIterator[Herd]:
    """A herd whose first claim has shown that nothing but the herd waits."""
    herd = Herd()
    working = asyncio.create_task(herd.claimer.run())
    try:
        assert await herd.claims() == [(36, 9)]
        herd.end(36)
        assert await herd.claims() == [(8, 2)]
        yield herd
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


@pytest.mark.req("K41")
async def test_next_group_of_a_herd_comes_when_the_one_before_has_gone() -> None:
    async with crowded() as herd:
        herd.end(7)
        before = await herd.claims()
        herd.end(1)

        assert (before, await herd.claims()) == ([], [(8, 2)])


@pytest.mark.req("K41")
async def test_next_group_of_a_herd_comes_after_a_while_beside_one_that_stays() -> None:
    async with crowded() as herd:
        herd.clock.advance(0.06)
        herd.claimer.wake()

        assert await herd.claims() == [(8, 2)]


@pytest.mark.req("K41")
async def test_fresh_run_is_looked_for_while_a_group_of_the_herd_has_its_time() -> None:
    async with crowded() as herd:
        herd.claimer.wake()

        assert await herd.claims() == [(4, 4)]
