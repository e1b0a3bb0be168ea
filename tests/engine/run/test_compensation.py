"""What steps did is undone when the run fails or is cancelled: in reverse order, durably, once."""

from __future__ import annotations

import asyncio

import pytest

from stepwell import (
    Context,
    Retry,
    RunFailed,
    StepContext,
    SyncContext,
    step,
    workflow,
)
from stepwell.domain.status import Status
from stepwell.errors import (
    NotForkable,
    NotRetryable,
    RunCancelled,
    RunTimedOut,
    StepError,
)
from stepwell.testing import crash_everywhere
from tests.engine.run.shop import ORDER, UNDONE, Order, Shop, start, tail
from tests.engines import Engines, all_events, crash, kinds, log, suspended, until


@pytest.mark.req("K27")
async def test_failure_undoes_what_was_done_last_first(engines: Engines) -> None:
    shop = Shop()
    order = shop.workflow()

    async with engines.new(order) as engine:
        run = await start(engine, order)
        with pytest.raises(RunFailed, match="no van"):
            await run.result()

        assert shop.done == ["charge 7", "reserve book 2", "ship", *UNDONE]
        assert await tail(run) == [
            "compensation_started",
            "step_completed compensate/0/reserve#1",
            "step_completed compensate/0/charge#1",
            "compensation_completed",
            "failed",
        ]
        assert shop.keys == [f"{run.id}/compensate/0/charge#1"]
        state = await run.state()
        assert state.status is Status.FAILED
        assert state.compensation is not None
        assert (state.compensation.steps, state.compensation.failed, state.compensation.completed) == (
            ["0/reserve#1", "0/charge#1"],
            [],
            True,
        )


@pytest.mark.req("K27")
async def test_a_run_that_completes_undoes_nothing(replayed_engines: Engines) -> None:
    shop = Shop()
    shop.broken = False
    order = shop.workflow()

    async with replayed_engines.new(order) as engine:
        assert await (await start(engine, order)).result() == "shipped"

    assert shop.done == ["charge 7", "reserve book 2", "ship"]


@pytest.mark.req("K27", "K5")
async def test_it_replays_as_any_other_steps_do(replayed_engines: Engines) -> None:
    shop = Shop()
    order = shop.workflow()

    async with replayed_engines.new(order) as engine:
        run = await start(engine, order)
        with pytest.raises(RunFailed):
            await run.result()

    assert shop.done == ["charge 7", "reserve book 2", "ship", *UNDONE]


@pytest.mark.req("K27", "K13")
async def test_cancel_runs_the_cleanup_first_then_the_compensations(engines: Engines) -> None:
    shop = Shop()

    async def tidy() -> None:
        shop.done.append("tidy")

    @workflow
    async def waiting(ctx: Context, order: Order) -> str:
        await ctx.step(shop.charge, order)
        try:
            return await ctx.signal("go", str)
        finally:
            await ctx.step(tidy)

    async with engines.new(waiting) as engine:
        run = await engine.start(waiting, ORDER)
        await suspended(run)
        await run.cancel("no longer needed")
        with pytest.raises(RunCancelled):
            await run.result()

        assert shop.done == ["charge 7", "tidy", "refund r-7 30"]
        [end] = [e for e in await all_events(run) if e.kind == "cancelled"]
        assert end.data["reason"] == "no longer needed"
        assert await run.cancel() is False


@pytest.mark.req("K27", "K13")
async def test_a_run_that_was_never_begun_has_nothing_to_undo(engines: Engines) -> None:
    order = Shop().workflow()

    async with engines.new(order, worker=False) as engine:
        run = await start(engine, order)
        await run.cancel()

        assert await kinds(run) == ["accepted", "cancelled"]


@pytest.mark.req("K27", "K12")
async def test_a_run_out_of_time_is_undone_too(engines: Engines) -> None:
    shop = Shop()

    async def hang() -> None:
        await asyncio.sleep(60)

    @workflow(timeout=1.0)  # the charge must be through by then, on any machine
    async def slow(ctx: Context, order: Order) -> None:
        await ctx.step(shop.charge, order)
        await ctx.step(hang)

    async with engines.new(slow) as engine:
        run = await engine.start(slow, ORDER)
        with pytest.raises(RunTimedOut):
            await run.result()

        assert shop.done == ["charge 7", "refund r-7 30"]
        assert (await tail(run))[-1] == "timed_out"


@pytest.mark.req("K27", "K13", "F10")
@pytest.mark.parametrize("ending", ["fails", "cancelled"])
async def test_going_on_as_new_settles_what_came_before(replayed_engines: Engines, ending: str) -> None:
    shop = Shop()

    @workflow
    async def generations(ctx: Context, count: int) -> None:
        await ctx.step(shop.charge, Order(str(count), 30))
        if count < 2:
            ctx.continue_as_new(count + 1)
        if ending == "fails":
            await ctx.step(shop.ship)
        await ctx.signal("never")

    async with replayed_engines.new(generations) as engine:
        run = await engine.start(generations, 0)
        if ending == "cancelled":
            await suspended(run)
            await run.cancel()
        with pytest.raises((RunFailed, RunCancelled)):
            await run.result()

        assert [done for done in shop.done if done.startswith("refund")] == ["refund r-2 30"]
        compensation = (await run.state()).compensation
        assert compensation is not None
        assert compensation.steps == ["2/charge#1"]


@pytest.mark.req("K27", "K11", "K26")
async def test_a_compensated_run_is_not_retried_but_forked(engines: Engines) -> None:
    shop = Shop()
    order = shop.workflow()

    async with engines.new(order) as engine:
        run = await start(engine, order)
        with pytest.raises(RunFailed):
            await run.result()

        with pytest.raises(NotRetryable) as refused:
            await run.retry()
        with pytest.raises(NotForkable):
            await engine.fork(run, at=(await all_events(run))[-1].seq)
        assert "rerun" in refused.value.hint
        shop.broken = False
        shop.done.clear()
        new = await engine.rerun_from(run, "ship")

        assert await new.result() == "shipped"
        assert shop.done == ["ship"]


@pytest.mark.req("K27", "K26")
async def test_a_fork_undoes_only_what_it_did_itself(engines: Engines) -> None:
    shop = Shop()
    order = shop.workflow()

    async with engines.new(order) as engine:
        run = await start(engine, order)
        with pytest.raises(RunFailed):
            await run.result()
        shop.done.clear()
        new = await engine.rerun_from(run, "reserve")
        with pytest.raises(RunFailed):
            await new.result()

    assert shop.done == ["reserve book 2", "ship", "release BOOK"]


@pytest.mark.req("K27")
async def test_an_error_that_the_code_handles_undoes_nothing(replayed_engines: Engines) -> None:
    shop = Shop()

    @workflow
    async def careful(ctx: Context, order: Order) -> str:
        await ctx.step(shop.charge, order)
        try:
            return await ctx.step(shop.ship)
        except StepError:
            return "later"

    async with replayed_engines.new(careful) as engine:
        assert await (await engine.start(careful, ORDER)).result() == "later"

    assert shop.done == ["charge 7", "ship"]


@pytest.mark.req("K27", "F4")
async def test_steps_of_branches_are_undone_in_the_reverse_of_the_log(replayed_engines: Engines) -> None:
    undone: list[int] = []

    async def undo(n: int) -> None:
        undone.append(n)

    @step(compensate=undo)
    async def do(n: int) -> int:
        return n

    @workflow
    async def wide(ctx: Context) -> None:
        await asyncio.gather(*(ctx.step(do, n) for n in range(5)))
        await ctx.map(do, [10, 11, 12])
        raise ValueError("no")

    async with replayed_engines.new(wide) as engine:
        run = await engine.start(wide)
        with pytest.raises(RunFailed):
            await run.result()
        order = [e.path for e in await all_events(run) if e.kind == "step_completed"]

    done = [path for path in order if not path.startswith("compensate/")]
    assert [path.removeprefix("compensate/") for path in order[len(done) :]] == done[::-1]
    assert sorted(undone) == [0, 1, 2, 3, 4, 10, 11, 12]


@pytest.mark.req("K27", "F6")
async def test_remote_steps_and_remote_compensations(engines: Engines) -> None:
    done: list[str] = []

    @step(queue="gpu")
    async def undo_far(result: int, n: int) -> None:
        done.append(f"undo {result} {n}")

    @step(queue="gpu", compensate=undo_far)
    async def do_far(n: int) -> int:
        done.append(f"do {n}")
        return n * 2

    @workflow
    async def failing(ctx: Context) -> None:
        await ctx.step(do_far, 4)
        raise ValueError("no")

    async with engines.new(failing, steps=[do_far, undo_far], queues=["default", "gpu"]) as engine:
        run = await engine.start(failing)
        with pytest.raises(RunFailed):
            await run.result(15)

    assert done == ["do 4", "undo 8 4"]


@pytest.mark.req("K27", "F1")
async def test_a_plain_workflow_function_is_undone_too(engines: Engines) -> None:
    shop = Shop()

    @workflow
    def plain(ctx: SyncContext, order: Order) -> str:
        ctx.step(shop.charge, order)
        return ctx.step(shop.ship)

    async with engines.new(plain) as engine:
        run = await engine.start(plain, ORDER)
        with pytest.raises(RunFailed):
            await run.result()

    assert shop.done == ["charge 7", "ship", "refund r-7 30"]


@pytest.mark.req("K27", "K4")
async def test_the_next_worker_goes_on_undoing_where_one_died(engines: Engines) -> None:
    done: list[str] = []
    gate = asyncio.Event()

    async def undo_slowly(n: int) -> None:
        done.append(f"undo {n}")
        if n == 1 and not gate.is_set():
            await asyncio.sleep(60)

    @step(compensate=undo_slowly)
    async def do(n: int) -> int:
        done.append(f"do {n}")
        return n

    @workflow
    async def failing(ctx: Context) -> None:
        done.append("code")
        await ctx.step(do, 1)
        await ctx.step(do, 2)
        raise ValueError("no")

    dying = engines.new(failing)
    await dying.open()
    run = await dying.start(failing)
    await until(lambda: "undo 1" in done)

    async def committed() -> bool:
        return "step_completed compensate/0/do#2" in await log(run)

    await until(committed)
    await crash(dying)
    gate.set()
    before = len(done)
    async with engines.new(failing) as engine:
        with pytest.raises(RunFailed, match="no"):
            await engine.handle(run.id).result(15)

        assert done[before:] == ["undo 1"]  # neither the workflow's code nor what was undone
        assert (await tail(engine.handle(run.id)))[-2:] == ["compensation_completed", "failed"]


@pytest.mark.req("K27", "R1")
async def test_it_survives_a_crash_at_every_commit() -> None:
    world: set[str] = set()
    asked = 0

    async def undo(name: str) -> None:
        world.discard(name)

    @step(compensate=undo)
    async def do(name: str) -> str:
        world.add(name)
        return name

    @step(retry=Retry(2, delay="1m"))
    async def undo_late(me: StepContext, name: str) -> None:
        if me.attempt == 1:
            raise OSError("away")
        world.discard(name)

    @step(compensate=undo_late)
    async def do_late(name: str) -> str:
        world.add(name)
        return name

    @workflow
    async def saga(ctx: Context) -> str:
        nonlocal asked
        asked += 1
        await ctx.step(do, "a")
        await ctx.step(do_late, "b")
        await ctx.step(do, "c")
        raise ValueError("no")

    @workflow
    async def outer(ctx: Context) -> list[str]:
        try:
            await ctx.run(saga, None)
        except StepError:
            pass
        return sorted(world)

    survived = await crash_everywhere(outer, also=[saga])

    assert survived >= 16
    assert asked > 2
