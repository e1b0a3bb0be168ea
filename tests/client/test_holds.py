"""Operators: hold and release a run, and end it by force."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Engine, Machine, RunHandle, SyncClient, step, transition, workflow
from stepwell.domain.status import Status
from stepwell.errors import NotHoldable, RunCancelled, RunEnded, RunNotFound
from tests.engines import SETTINGS, Engines, reaches, suspended, until

DONE: list[str] = []
GATES: dict[str, asyncio.Event] = {}


def gate(name: str) -> asyncio.Event:
    return GATES.setdefault(name, asyncio.Event())


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()
    GATES.clear()


@step
async def work(name: str) -> str:
    DONE.append(name)
    await gate(name).wait()
    return name


@workflow
async def two_steps(ctx: Context, n: int) -> str:
    return await ctx.step(work, "first") + await ctx.step(work, "second")


@workflow
async def waits(ctx: Context, n: int) -> str:
    return str(await ctx.signal("go"))


@workflow
async def sleeps(ctx: Context, seconds: float) -> str:
    await ctx.sleep(seconds)
    return "awake"


@workflow
async def hangs(ctx: Context, n: int) -> str:
    try:
        await ctx.signal("never")
    finally:
        await ctx.step(work, "cleanup")
    return "done"


@workflow
async def parent(ctx: Context, n: int) -> str:
    return await ctx.run(waits, n)


class Door(Machine[dict[str, Any]]):
    @transition("start", "open")
    async def unlock(self, ctx: Context) -> None:
        await ctx.step(work, "first")

    @transition("open", "end")
    async def leave(self, ctx: Context) -> None:
        await ctx.step(work, "second")


async def held(run: RunHandle[Any]) -> bool:
    info = await run.info()
    tickets = await run._client.store.read_tickets(run.id)
    return info.held and all(not ticket.lease for ticket in tickets)


async def noted(run: RunHandle[Any]) -> bool:
    """Its owner knows."""
    return (await run.state()).held is not None


async def kinds(run: RunHandle[Any]) -> list[str]:
    return [event.kind async for event in run.events()]


@pytest.mark.req("K39")
async def test_a_running_run_stops_at_its_next_step(engines: Engines) -> None:
    async with engines.new(two_steps) as engine:
        run = await engine.start(two_steps, 1)
        await until(lambda: DONE == ["first"])

        assert await run.hold(by="ann", reason="wrong price")
        assert (await run.why()).code == "held"
        await until(lambda: noted(run))
        gate("first").set()
        await until(lambda: held(run))

        assert DONE == ["first"]
        reason = await run.why()
        assert reason.code == "held"
        assert "ann held it at " in reason.text
        assert ": wrong price; release it" in reason.text
        assert (await run.info()).status is Status.RUNNING
        state = await run.state()
        assert state.held is not None
        assert (state.held.by, state.held.reason) == ("ann", "wrong price")

        gate("second").set()
        assert await run.release(by="bob")
        assert await run.result("20s") == "firstsecond"
        assert DONE == ["first", "second"], "nothing was repeated"
        assert [kind for kind in await kinds(run) if kind in ("held", "released")] == ["held", "released"]


@pytest.mark.req("K39")
async def test_a_held_run_stays_suspended_and_keeps_its_messages(engines: Engines) -> None:
    async with engines.new(waits) as engine:
        run = await engine.start(waits, 1)
        await suspended(run)

        await run.hold()
        await run.signal("go", "now")

        info = await run.info()
        assert (info.status, info.held) == (Status.SUSPENDED, True)
        assert not await run.hold(), "it was held before"
        assert await run.release()
        assert await run.result("20s") == "now"


@pytest.mark.req("K39")
async def test_a_timer_that_was_due_fires_on_release(engines: Engines) -> None:
    async with engines.new(sleeps) as engine:
        run = await engine.start(sleeps, 0.05)
        await run.hold()
        await until(lambda: held(run))
        due = (await engine.store.read_tickets(run.id))[0].due_at
        await until(lambda: _is_past(engine, due))

        assert not (await run.info()).status.terminal
        await run.release()
        assert await run.result("20s") == "awake"


async def _is_past(engine: Engine, at: float) -> bool:
    return await engine.store.now() > at + 0.1


@pytest.mark.req("K39")
async def test_a_machine_stops_between_two_transitions(engines: Engines) -> None:
    async with engines.new(Door) as engine:
        run = await engine.start(Door)
        await until(lambda: DONE == ["first"])
        await run.hold()
        await until(lambda: noted(run))
        gate("first").set()
        gate("second").set()
        await until(lambda: held(run))

        assert DONE == ["first"]
        await run.release()
        await run.result("20s")
        assert DONE == ["first", "second"]


@pytest.mark.req("K39")
async def test_a_run_that_nobody_began_can_be_held(engines: Engines) -> None:
    async with engines.client() as client:
        run = await client.start(waits, 1)
        await run.hold(by="ann")
        async with engines.new(waits) as engine:
            other = await engine.start(waits, 2)
            await suspended(other)

            assert (await run.info()).status is Status.PENDING
            await run.release()
            await run.signal("go", "now")
            assert await run.result("20s") == "now"


@pytest.mark.req("K39", "K13")
async def test_cancelling_a_held_run_ends_it(engines: Engines) -> None:
    async with engines.new(hangs) as engine:
        run = await engine.start(hangs, 1)
        await suspended(run)
        await run.hold()

        await run.cancel("enough")

        await until(lambda: DONE == ["cleanup"])
        assert (await run.state()).held is None
        assert not (await run.info()).held
        gate("cleanup").set()
        with pytest.raises(RunCancelled, match="enough"):
            await run.result("20s")
        assert DONE == ["cleanup"]
        with pytest.raises(RunEnded):
            await run.hold()


@pytest.mark.req("K39")
async def test_a_run_is_ended_by_force_when_its_cleanup_hangs(engines: Engines) -> None:
    async with engines.new(hangs) as engine:
        run = await engine.start(hangs, 1)
        await suspended(run)
        await run.cancel()
        await until(lambda: DONE == ["cleanup"])
        with pytest.raises(NotHoldable, match="cleans up"):
            await run.hold()

        assert await run.cancel("stuck", by="ann", force=True)

        with pytest.raises(RunCancelled, match="stuck"):
            await run.result("20s")
        state = await run.state()
        assert (state.forced, state.cancelled_by) == (True, "ann")
        assert engine.worker is not None
        worker = engine.worker
        await until(lambda: not worker.active)
        gate("cleanup").set()
        assert (await kinds(run))[-1] == "cancelled"
        assert not await run.cancel(force=True), "it has ended"
        assert (await run.why()).text == "the run is cancelled: stuck"


@pytest.mark.req("K39", "K18")
async def test_the_children_of_a_forced_run_are_cancelled(engines: Engines) -> None:
    async with engines.new(parent, waits) as engine:
        run = await engine.start(parent, 1)
        [wait] = await until(run.waits)
        child = engine.handle(wait.key)
        await suspended(child)

        await run.cancel(force=True)

        await reaches(child, Status.CANCELLED)


@pytest.mark.req("K39", "T1")
async def test_a_run_of_another_workspace_cannot_be_held(engines: Engines) -> None:
    async with engines.new(waits) as engine, engines.new(worker=False, workspace="acme") as other:
        run = await engine.start(waits, 1)

        with pytest.raises(RunNotFound):
            await other.handle(run.id).hold()
        with pytest.raises(RunNotFound):
            await other.handle(run.id).cancel(force=True)


@pytest.mark.req("K39", "K35")
async def test_the_sync_client_holds_and_releases(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    async with Engine(url, workflows=[waits], settings=SETTINGS) as engine:
        run = await engine.start(waits, 1)
        await suspended(run)

        def operate() -> list[bool]:
            with SyncClient(url) as client:
                handle = client.handle(run.id)
                return [handle.hold(by="ann"), handle.release(), handle.cancel(force=True)]

        assert await asyncio.to_thread(operate) == [True, True, True]
