"""What users get for their own tests: virtual time, fakes, crashes at every commit, always-replay."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest

from stepwell import Context, Retry, RunFailed, RunHandle, Status, Workflow, step, workflow
from stepwell.errors import InvalidRequest
from stepwell.testing import VirtualEngine, crash_everywhere


@step(retry=Retry(3))
async def charge(cents: int) -> int:
    return cents


@workflow
async def pay(ctx: Context, cents: int) -> list[int]:
    first = await ctx.step(charge, cents)
    await ctx.sleep("3d")
    extra = await ctx.signal("extra", int, timeout="1d")
    return [first, extra, *await asyncio.gather(ctx.step(charge, 1), ctx.step(charge, 2))]


async def send_extra(engine: VirtualEngine, run: RunHandle[Any]) -> None:
    if not (await run.status()).terminal:
        await run.signal("extra", 5, id="only")


@pytest.mark.req("K16")
async def test_three_days_of_sleep_take_no_time(stepwell_engine: Callable[..., VirtualEngine]) -> None:
    began = time.monotonic()
    async with stepwell_engine(pay) as engine:
        run = await engine.start(pay, 100)

        await engine.advance("2d")
        assert await run.status() == Status.SUSPENDED
        assert "a timer" in (await run.why()).text
        await run.signal("extra", 7)

        assert await engine.outcome(run) == [100, 7, 1, 2]
        assert engine.clock.time() > 0
    assert time.monotonic() - began < 30


async def test_a_wait_times_out_when_the_test_says_so() -> None:
    async with VirtualEngine(pay) as engine:
        run = await engine.start(pay, 100)
        await engine.advance("3d")
        await engine.advance("23h")
        assert await run.status() == Status.SUSPENDED

        await engine.advance("2h")

        assert await run.status() == Status.FAILED
        assert "not answered in time" in (await run.why()).text


@pytest.mark.req("K9")
async def test_a_faked_step_fails_then_answers_and_keeps_its_retries() -> None:
    async with VirtualEngine(pay) as engine:
        calls = engine.fake(charge, fails=[ValueError("no"), TimeoutError], calls=lambda cents: cents * 10)
        run = await engine.start(pay, 100)
        await run.signal("extra", 7)

        assert await engine.outcome(run) == [1000, 7, 10, 20]
        assert calls == [(100,), (100,), (100,), (1,), (2,)]


@pytest.mark.req("K5", "K2")
async def test_a_crash_at_any_commit_leads_to_the_same_result() -> None:
    survived = await crash_everywhere(pay, 3, story=send_extra)

    assert survived >= 10


async def test_a_workflow_that_does_not_replay_is_found_by_crashing_it() -> None:
    lives: list[int] = []

    @workflow
    async def forgetful(ctx: Context, start: int) -> int:
        lives.append(1)
        await ctx.sleep("1h")
        return len(lives)

    with pytest.raises(AssertionError, match="with a crash"):
        await crash_everywhere(forgetful, 0)


@pytest.mark.req("F2")
async def test_always_replay_mode_comes_to_the_same_result() -> None:
    async with VirtualEngine(pay, replay_always=True) as engine:
        run = await engine.start(pay, 100)
        await run.signal("extra", 7)

        assert await engine.outcome(run) == [100, 7, 1, 2]
        claims = [event async for event in run.events() if event.kind == "claimed"]
        assert len(claims) >= 3  # one a commit: the step, the timer with the signal, the branches


@step
async def put(what: str) -> str:
    return what


@workflow
async def hurried(ctx: Context, what: str) -> None:
    await ctx.step(put, SOURCES[what]())
    await ctx.step(put, what)


@workflow
async def misnamed(ctx: Context, what: str) -> None:
    await ctx.step(put, what)
    await ctx.signal(f"for {SOURCES[what]()}", timeout="1h")


SOURCES: dict[str, Callable[[], str]] = {
    "time": lambda: str(time.time_ns()),
    "datetime": lambda: datetime.now().isoformat(),
    "random": lambda: str(random.random()),
    "uuid4": lambda: uuid4().hex,
}


@pytest.mark.req("F5", "F2")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("careless", "says"), [(hurried, "other arguments"), (misnamed, "0/signal:for ")])
async def test_always_replay_mode_tells_of_clocks_and_chance(
    careless: Workflow[str, None], says: str, source: str
) -> None:
    async with VirtualEngine(careless, replay_always=True) as engine:
        run = await engine.start(careless, source)

        with pytest.raises(RunFailed, match=says) as told:
            await engine.outcome(run)

        assert told.value.cause_code == "CODE_CHANGED"
        assert source in told.value.hint
        assert "ctx.now(), ctx.random(), ctx.uuid()" in told.value.hint


async def test_a_run_that_nothing_can_end_is_reported_with_its_reason() -> None:
    @workflow
    async def waits(ctx: Context) -> None:
        await ctx.signal("never")

    async with VirtualEngine(waits) as engine:
        run = await engine.start(waits)

        with pytest.raises(AssertionError, match="waits for signal 'never'"):
            await engine.outcome(run)


@step
async def tell(what: str) -> str:
    return what


@workflow
async def nap(ctx: Context, what: str) -> str:
    await ctx.sleep("1m")
    return what


@workflow
async def naps(ctx: Context, what: str) -> str:
    await ctx.sleep("1h")
    return await ctx.step(tell, await ctx.run(nap, what))


async def test_an_engine_that_crashed_or_was_closed_says_so_instead_of_waiting_for_ever() -> None:
    async with VirtualEngine(naps, nap) as engine:
        with pytest.raises(InvalidRequest, match="is not open"):
            await VirtualEngine(naps).crash()
        run = await engine.start(naps, "x")
        await engine.settle()
        await engine.crash()

        with pytest.raises(InvalidRequest, match="has crashed") as told:
            await engine.advance("2h")
        with pytest.raises(InvalidRequest, match="has crashed"):
            await engine.outcome(run)

        assert "store=engine.memory, clock=engine.clock" in told.value.hint
        async with VirtualEngine(naps, nap, store=engine.memory, clock=engine.clock) as second:
            assert await second.outcome(second.handle(run.id, naps)) == "x"
    with pytest.raises(InvalidRequest, match="is not open"):
        await engine.advance("2h")


async def advances(engine: VirtualEngine, run: RunHandle[Any]) -> None:
    await engine.advance("2h")


async def skips_to_the_end(engine: VirtualEngine, run: RunHandle[Any]) -> None:
    assert await engine.outcome(run) == "x"


async def waits_for_the_end(engine: VirtualEngine, run: RunHandle[Any]) -> None:
    await engine.advance("2h")
    assert await run.result() == "x"


@pytest.mark.req("K5")
@pytest.mark.parametrize("story", [advances, skips_to_the_end, waits_for_the_end])
async def test_a_story_that_moves_time_is_told_again_after_the_crash(story: Any) -> None:
    assert await crash_everywhere(naps, "x", also=[nap], story=story) >= 10


async def test_a_story_that_fails_by_itself_is_heard() -> None:
    async def wrong(engine: VirtualEngine, run: RunHandle[Any]) -> None:
        assert await engine.outcome(run) == "y"

    with pytest.raises(AssertionError):
        await crash_everywhere(naps, "x", also=[nap], story=wrong)
