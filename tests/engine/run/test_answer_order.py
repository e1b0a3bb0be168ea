"""Answers that come together are taken one at a time: what the first leads to may withdraw the second."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell import Context, Permanent, RunHandle, Status, StepError, step, workflow
from stepwell.errors import RunCancelled, RunFailed, WaitTimedOut
from stepwell.testing import VirtualEngine


async def _kinds(run: Any, path: str = "") -> list[str]:
    return [event.kind async for event in run.events() if path in ("", event.path)]


@workflow
async def two_signals(ctx: Context) -> list[str]:
    won = await ctx.first(ctx.signal("a", str), ctx.signal("b", str))
    await ctx.sleep("1d")
    return [won, await ctx.signal("b", str)]


@pytest.mark.req("F2", "K15")
async def test_the_loser_of_two_signals_leaves_its_message_for_the_next_wait() -> None:
    async with VirtualEngine(two_signals) as engine:
        run = await engine.start(two_signals)
        await run.signal("a", "first")
        await run.signal("b", "second")

        assert await engine.outcome(run) == ["first", "second"]


@workflow
async def two_timers(ctx: Context) -> str:
    await ctx.first(ctx.sleep("1h"), ctx.sleep("1h"))
    await ctx.sleep("1d")
    return "awake"


@workflow
async def timeout_and_timer(ctx: Context) -> str:
    try:
        await ctx.first(ctx.signal("a", timeout="1h"), ctx.sleep("1h"))
    except WaitTimedOut:
        pass
    await ctx.sleep("1d")
    return "awake"


@pytest.mark.req("F2")
@pytest.mark.parametrize("flow", [two_timers, timeout_and_timer], ids=["timers", "timeout"])
async def test_timers_that_are_due_together_replay(flow: Any) -> None:
    async with VirtualEngine(flow) as engine:
        run = await engine.start(flow)

        assert await engine.outcome(run) == "awake"


@workflow
async def ticking(ctx: Context, n: int) -> int:
    await ctx.signal("tick")
    return int(ctx.continue_as_new(n + 1))


@pytest.mark.req("K13", "F10")
async def test_a_cancel_is_not_lost_between_two_generations() -> None:
    async with VirtualEngine(ticking) as engine:
        run = await engine.start(ticking, 0)
        await engine.settle()
        await run.signal("tick")
        await run.cancel("enough")
        await engine.settle()

        assert await run.status() == Status.CANCELLED


@step
async def refund() -> None:
    raise Permanent("the bank said no")


@workflow
async def cleans_up(ctx: Context) -> None:
    try:
        await ctx.signal("never")
    finally:
        await ctx.sleep("1h")
        await ctx.step(refund)


@pytest.mark.req("K13")
async def test_a_cancelled_run_keeps_its_reason_and_tells_of_a_failed_cleanup() -> None:
    async with VirtualEngine(cleans_up) as engine:
        run = await engine.start(cleans_up)
        await engine.settle()
        await run.cancel("customer asked")

        with pytest.raises(RunCancelled, match="the bank said no"):
            await engine.outcome(run)
        last = [event async for event in run.events()][-1]
        assert last.data["reason"] == "customer asked"


while_it_runs: list[Callable[[], Awaitable[None]]] = []


@step
async def quick() -> str:
    await while_it_runs[0]()
    return "done"


@workflow
async def forever(ctx: Context) -> None:
    await ctx.signal("never")


@workflow
async def leaves_a_child(ctx: Context) -> str:
    child = await ctx.start(forever, None)
    return str(await ctx.first(child.result(), ctx.step(quick)))


@pytest.mark.req("K18", "F4")
async def test_the_child_of_a_loser_is_cancelled_also_when_the_end_was_refused_once() -> None:
    async with VirtualEngine(leaves_a_child, forever) as engine:
        started: list[RunHandle[str]] = []

        async def interrupt() -> None:
            await started[0].signal("late")  # arrives while the parent is about to end

        while_it_runs[:] = [interrupt]
        started.append(await engine.start(leaves_a_child))
        await engine.settle()

        [child] = [r for r in await engine.runs(workflow="forever")]
        assert child.status == Status.CANCELLED


class OrderFailed(Exception):
    pass


@step
async def charge() -> str:
    return "paid"


@workflow
async def wraps(ctx: Context) -> str:
    try:
        return await ctx.step(charge)
    except StepError as error:
        raise OrderFailed("order") from error


@pytest.mark.req("K11")
async def test_retry_goes_on_at_the_step_whose_error_was_wrapped() -> None:
    async with VirtualEngine(wraps) as engine:
        engine.fake(charge, fails=[ValueError("once")], returns="paid")
        run = await engine.start(wraps)
        with pytest.raises(RunFailed, match="order"):
            await engine.outcome(run)

        await run.retry()

        assert await engine.outcome(run) == "paid"


@workflow
async def waits_an_hour(ctx: Context) -> str:
    return await ctx.signal("go", str, timeout="1h")


@pytest.mark.req("K11")
async def test_retry_after_a_wait_that_timed_out_waits_again() -> None:
    async with VirtualEngine(waits_an_hour) as engine:
        run = await engine.start(waits_an_hour)
        with pytest.raises(RunFailed):
            await engine.outcome(run)

        await run.retry()
        await engine.settle()
        await run.signal("go", "late but welcome")

        assert await engine.outcome(run) == "late but welcome"
