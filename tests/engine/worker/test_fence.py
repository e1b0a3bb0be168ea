"""Only the current lease holder can write; a worker that lost it stops and leaves no trace."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from stepwell import Context, workflow
from stepwell.domain import events as ev
from stepwell.domain.commit import Commit, Finish, Outcome
from stepwell.domain.ids import LeaseId
from stepwell.domain.status import Status
from tests.engines import SHORT_LEASE, Engines, all_events, crash, kinds, log, ticket, until


async def lose_lease(engine: Any) -> None:
    """What a sweep does to a worker that was silent for too long."""
    await engine.store.deregister(engine.worker.id)


@pytest.mark.req("K3")
async def test_zombie_commit_is_refused(engines: Engines) -> None:
    gate = asyncio.Event()
    begun = asyncio.Event()

    async def hold() -> str:
        begun.set()
        await gate.wait()
        return "done"

    @workflow
    async def held(ctx: Context) -> str:
        return await ctx.step(hold)

    async with engines.new(held) as engine:
        run = await engine.start(held)
        await begun.wait()
        owned = await ticket(run)
        assert owned is not None
        before = await log(run)
        for lease, head in [("somebody-else", owned.head), (owned.lease, owned.head + 1)]:
            stale = Commit(
                run_id=run.id,
                lease=LeaseId(lease),
                head=head,
                events=[ev.written(ev.Completed())],
                then=Finish(seen=owned.wakes, status=Status.COMPLETED),
            )
            assert [c.outcome for c in await engine.store.commit([stale])] == [Outcome.LOST]
        assert await log(run) == before
        gate.set()
        assert await run.result() == "done"


@pytest.mark.req("K3", "K4")
async def test_worker_that_lost_its_lease_records_nothing_more(engines: Engines) -> None:
    gates = {"old": asyncio.Event(), "new": asyncio.Event()}
    begun: list[str] = []
    who = "old"

    async def work() -> str:
        me = who
        begun.append(me)
        await gates[me].wait()
        return me

    @workflow
    async def worked(ctx: Context) -> str:
        return await ctx.step(work)

    old = engines.new(worked)
    await old.open()
    run = await old.start(worked)
    await until(lambda: begun == ["old"])
    await lose_lease(old)
    who = "new"
    async with engines.new(worked) as engine:
        await until(lambda: "new" in begun)
        gates["old"].set()  # the frozen worker thaws and wants to write its result
        await until(lambda: old.worker is not None and not old.worker.active)
        gates["new"].set()
        again = engine.handle(run.id)
        assert await again.result(15) == "new"
        await old.close()
        done = [e for e in await all_events(again) if e.kind == "step_completed"]

    assert [e.data["result"] for e in done] == ["new"]


@pytest.mark.req("K3", "K4")
async def test_silent_worker_is_found_dead_and_its_run_goes_on(engines: Engines) -> None:
    begun = 0
    gate = asyncio.Event()

    async def work() -> int:
        nonlocal begun
        begun += 1
        if begun == 1:
            await gate.wait()
        return begun

    @workflow
    async def worked(ctx: Context) -> int:
        return await ctx.step(work)

    silent = engines.new(worked, settings=SHORT_LEASE)
    await silent.open()
    run = await silent.start(worked)
    await until(lambda: begun == 1)
    async with engines.new(worked, settings=SHORT_LEASE) as engine:
        await crash(silent, found_dead=False)
        assert await engine.handle(run.id).result(30) == 2
        found = await kinds(engine.handle(run.id))

    assert "lease_lost" in found
    assert found.index("lease_lost") < found.index("step_completed")


@pytest.mark.req("K3", "K12")
async def test_thread_of_a_lost_run_is_left_behind_and_its_result_ignored(memory_engines: Engines) -> None:
    release = threading.Event()
    results: list[int] = []

    def slow() -> int:
        results.append(len(results) + 1)
        if len(results) == 1:
            release.wait(20)
            return 111
        return 222

    @workflow
    async def threaded(ctx: Context) -> int:
        return await ctx.step(slow)

    old = memory_engines.new(threaded)
    await old.open()
    run = await old.start(threaded)
    await until(lambda: results)
    await crash(old)
    async with memory_engines.new(threaded) as engine:
        assert await engine.handle(run.id).result(15) == 222
        release.set()
        await asyncio.sleep(0.05)
        assert (await kinds(engine.handle(run.id))).count("step_completed") == 1
