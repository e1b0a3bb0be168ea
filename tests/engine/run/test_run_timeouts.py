"""A run whose time is up: what it did is kept or undone as after a failure, and a person can send it on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Machine, Retry, RunFailed, RunHandle, step, transition, workflow
from stepwell.domain.status import Status
from stepwell.errors import NotCompensable, NotRetryable, RunTimedOut
from stepwell.testing import VirtualEngine
from tests.engines import kinds, until

TEN_MINUTES = Retry(20, delay="10m", max_delay="10m", backoff="fixed")

DONE: list[str] = []


class World:
    away = True


@pytest.fixture(autouse=True)
def fresh() -> None:
    DONE.clear()
    World.away = True


async def refund(receipt: str) -> None:
    DONE.append(f"refund {receipt}")


@step(compensate=refund)
async def charge() -> str:
    DONE.append("charge")
    return "r1"


@step(retry=TEN_MINUTES)
async def ship() -> str:
    DONE.append("ship")
    if World.away:
        raise OSError("no van")
    return "shipped"


@workflow(timeout="35m", on_failure="hold")
async def order(ctx: Context) -> str:
    await ctx.step(charge)
    return await ctx.step(ship)


@workflow(timeout="35m")
async def undoing(ctx: Context) -> str:
    await ctx.step(charge)
    return await ctx.step(ship)


class Order(Machine[list[str]], timeout="35m", on_failure="hold"):
    @transition("start", "charged")
    async def pay(self, ctx: Context) -> None:
        self.state.append(await ctx.step(charge))

    @transition("charged", "end", retry=TEN_MINUTES)
    async def send(self, ctx: Context) -> None:
        DONE.append("ship")
        if World.away:
            raise OSError("no van")
        self.state.append("shipped")


async def times_out(engine: VirtualEngine, run: RunHandle[Any]) -> RunTimedOut:
    began = engine.clock.time()
    with pytest.raises(RunTimedOut) as told:
        await engine.outcome(run)
    assert engine.clock.time() - began == pytest.approx(35 * 60)
    assert await run.status() is Status.TIMED_OUT
    return told.value


@pytest.mark.req("K11", "K12", "K27")
@pytest.mark.parametrize("replays", [False, True])
async def test_a_function_out_of_time_goes_on_where_it_was_and_has_its_time_again(replays: bool) -> None:
    async with VirtualEngine(order, replay_always=replays) as engine:
        run = await engine.start(order)
        told = await times_out(engine, run)
        assert "retry" in told.hint
        assert ["charge", *["ship"] * 4] == DONE

        await engine.advance("2d")  # a person sleeps over it: that is not the run's time
        await run.retry()
        await times_out(engine, run)
        assert ["charge", *["ship"] * 8] == DONE, "the charge is not repeated"

        await run.retry()
        await engine.advance("25m")
        World.away = False

        assert await engine.outcome(run) == "shipped"
        assert (await kinds(run)).count("timed_out") == 2
        assert (await run.state()).status is Status.COMPLETED
        with pytest.raises(NotRetryable, match="completed"):
            await run.retry()


@pytest.mark.req("K11", "K12", "M5")
async def test_a_machine_out_of_time_stays_at_its_place_and_goes_on_from_there() -> None:
    async with VirtualEngine(Order) as engine:
        run = await engine.start(Order)
        await times_out(engine, run)
        state = await run.state()
        assert state.checkpoint is not None
        assert (state.checkpoint.place, state.checkpoint.read(list[str])) == ("charged", ["r1"])
        assert "'charged'" in (await run.why()).text

        await run.retry()
        await engine.advance("25m")
        World.away = False

        assert await engine.outcome(run) == ["r1", "shipped"]
        assert DONE.count("charge") == 1


@pytest.mark.req("K26", "K12")
async def test_a_fork_of_a_machine_has_its_own_time() -> None:
    async with VirtualEngine(Order) as engine:
        run = await engine.start(Order)
        await times_out(engine, run)
        [checkpoint] = await run.checkpoints()

        fork = await engine.fork(run, at=checkpoint.seq)

        await times_out(engine, fork)


@pytest.mark.req("K27", "K12")
@pytest.mark.parametrize("program", [order, Order])
async def test_what_a_run_out_of_time_held_is_undone_when_a_person_says_so(program: type[Order]) -> None:
    async with VirtualEngine(program) as engine:
        run = await engine.start(program)
        told = await times_out(engine, run)
        assert "refund r1" not in DONE

        await run.compensate()
        with pytest.raises(RunTimedOut) as again:
            await engine.outcome(run)

        assert DONE[-1] == "refund r1"
        assert again.value.message == told.message
        assert await run.status() is Status.TIMED_OUT
        with pytest.raises(NotRetryable) as refused:
            await run.retry()
        assert "rerun" in refused.value.hint
        with pytest.raises(NotCompensable, match="already"):
            await run.compensate()


@pytest.mark.req("K27", "K11", "K12")
async def test_a_run_that_undid_itself_is_not_sent_on() -> None:
    async with VirtualEngine(undoing) as engine:
        run = await engine.start(undoing)
        await times_out(engine, run)
        assert DONE[-1] == "refund r1"

        with pytest.raises(NotRetryable, match="compensated"):
            await run.retry()


@pytest.mark.req("K11", "K12")
async def test_the_time_between_a_failure_and_its_retry_is_not_the_runs() -> None:
    @step
    async def once() -> str:
        if World.away:
            raise ValueError("no")
        return "done"

    @workflow(timeout="35m")
    async def failing(ctx: Context) -> str:
        return await ctx.step(once)

    async with VirtualEngine(failing) as engine:
        run = await engine.start(failing)
        with pytest.raises(RunFailed):
            await engine.outcome(run)
        World.away = False
        await engine.advance("1h")
        await run.retry()

        assert await engine.outcome(run) == "done"


@pytest.mark.req("K26", "K12", "F10")
async def test_a_fork_of_a_later_generation_has_its_own_time() -> None:
    @workflow(timeout="35m")
    async def generations(ctx: Context, count: int) -> str:
        if count == 0:
            ctx.continue_as_new(1)
        return await ctx.step(ship)

    async with VirtualEngine(generations) as engine:
        run = await engine.start(generations, 0)
        await times_out(engine, run)
        [continued] = [event.seq async for event in run.events() if event.kind == "continued"]

        fork = await engine.fork(run, at=continued)

        await times_out(engine, fork)


# Held


HOLDS = ["run", "workflow", "workspace"]


async def change(engine: VirtualEngine, run: RunHandle[Any], kind: str, *, held: bool) -> None:
    if kind == "run":
        await (run.hold() if held else run.release())
    else:
        scope: Any = kind
        name = (await run.info()).workflow if kind == "workflow" else ""
        await (engine.hold(scope, name) if held else engine.release(scope, name))


async def held_for_hours(engine: VirtualEngine, run: RunHandle[Any], kind: str) -> None:
    await change(engine, run, kind, held=True)
    await engine.advance("3h")
    await change(engine, run, kind, held=False)


@pytest.mark.req("K12", "K39")
@pytest.mark.parametrize("kind", HOLDS)
async def test_a_run_that_waited_has_its_time_after_a_hold(kind: str) -> None:
    @workflow(timeout="35m")
    async def waiting(ctx: Context) -> str:
        await ctx.signal("go")
        await ctx.sleep("1m")
        return await ctx.step(ship)

    World.away = False
    async with VirtualEngine(waiting) as engine:
        run = await engine.start(waiting)
        await engine.advance("1h")
        await held_for_hours(engine, run, kind)
        await run.signal("go")

        assert await engine.outcome(run) == "shipped"
        assert (await run.overview()).active < 60


@pytest.mark.req("K12", "K39")
@pytest.mark.parametrize("kind", HOLDS)
async def test_a_step_that_is_tried_again_has_its_time_after_a_hold(kind: str) -> None:
    async with VirtualEngine(order) as engine:
        run = await engine.start(order)
        await engine.settle()
        await held_for_hours(engine, run, kind)
        World.away = False

        assert await engine.outcome(run) == "shipped"
        assert (await run.overview()).active <= 10 * 60 + 1


@pytest.mark.req("K12", "K38", "K39")
@pytest.mark.parametrize("kind", HOLDS)
async def test_a_run_that_is_held_between_two_steps_is_paused(kind: str) -> None:
    begun, may = asyncio.Event(), asyncio.Event()

    @step
    async def first() -> None:
        begun.set()
        await may.wait()

    @workflow(timeout="35m")
    async def two(ctx: Context) -> str:
        await ctx.step(first)
        return await ctx.step(ship)

    async def paused() -> bool:
        return (await kinds(run))[-1] == "suspended"

    World.away = False
    async with VirtualEngine(two) as engine:
        run = await engine.start(two)
        await begun.wait()
        await change(engine, run, kind, held=True)
        await until(lambda: noticed(engine, run))
        may.set()
        await until(paused)
        assert (await run.info()).status is (await run.state()).status is Status.RUNNING
        assert (await run.overview()).active < 60
        await engine.advance("3h")
        assert (await run.overview()).active < 60
        await change(engine, run, kind, held=False)

        assert await engine.outcome(run) == "shipped"
        assert (await run.overview()).active < 60
        told = [kind for kind in await kinds(run) if kind in ("suspended", "resumed")]
        assert told == ["suspended", "resumed"]


async def noticed(engine: VirtualEngine, run: RunHandle[Any]) -> bool:
    """Its owner has heard of the hold."""
    assert engine.worker is not None
    work: Any = engine.worker.active.get((run.id, ""))
    return work is not None and work.draining
