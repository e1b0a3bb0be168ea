"""Long lives: continue_as_new with an empty history, and many steps at a flat price."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from stepwell import Context, RunFailed, SyncContext, workflow
from stepwell.domain.status import Status
from stepwell.errors import RunCancelled, RunTimedOut
from tests.engines import Engines, all_events, crash, kinds, suspended, until


@pytest.mark.req("F10")
async def test_run_goes_on_with_a_new_input_and_the_same_id(engines: Engines) -> None:
    @workflow
    async def countdown(ctx: Context, n: int) -> str:
        await ctx.step(str, n)
        if n:
            return str(ctx.continue_as_new(n - 1))
        return f"done in {ctx.run_id}"

    async with engines.new(countdown) as engine:
        run = await engine.start(countdown, 5, key="k")

        assert await run.result() == f"done in {run.id}"
        assert (await kinds(run)).count("continued") == 5
        assert (await run.state()).generation == 5


@pytest.mark.req("F10", "K15", "K6")
async def test_signals_come_along_and_stay_known(engines: Engines) -> None:
    @workflow
    async def counter(ctx: Context, seen: list[str]) -> list[str]:
        seen = [*seen, str(await ctx.signal("word"))]
        if len(seen) == 4:
            return seen
        return list(ctx.continue_as_new(seen))

    async with engines.new(counter) as engine:
        run = await engine.start(counter, [])
        for word in "abc":
            await run.signal("word", word, id=word)

        async def three() -> bool:
            return (await kinds(run)).count("continued") == 3

        await until(three)
        await suspended(run)
        await run.signal("word", "a", id="a")  # was taken two lives ago
        await run.signal("word", "d", id="d")

        assert await run.result() == ["a", "b", "c", "d"]


@pytest.mark.req("F10", "K4")
async def test_crash_after_continuing_replays_the_last_life_only(engines: Engines) -> None:
    done: list[int] = []

    @workflow
    async def lives(ctx: Context, n: int) -> int:
        await ctx.step(done.append, n)
        if n < 3:
            return int(ctx.continue_as_new(n + 1))
        return int(await ctx.signal("go"))

    dying = engines.new(lives)
    await dying.open()
    run = await dying.start(lives, 0)
    await suspended(run)
    await crash(dying)
    async with engines.new(lives) as engine:
        again = engine.handle(run.id)
        await again.signal("go", 7)
        assert await again.result(15) == 7

    assert done == [0, 1, 2, 3]


@pytest.mark.req("F10")
async def test_plain_function_can_continue(replayed_engines: Engines) -> None:
    @workflow
    def countdown(ctx: SyncContext, n: int) -> str:
        ctx.step(str, n)
        return str(ctx.continue_as_new(n - 1)) if n else "done"

    async with replayed_engines.new(countdown) as engine:
        assert await (await engine.start(countdown, 3)).result() == "done"


@pytest.mark.req("F10", "F9")
async def test_next_input_is_checked(memory_engines: Engines) -> None:
    @workflow
    async def wrong(ctx: Context, n: int) -> int:
        return int(ctx.continue_as_new("text"))

    async with memory_engines.new(wrong) as engine:
        with pytest.raises(RunFailed) as caught:
            await (await engine.start(wrong, 1)).result()

    assert caught.value.cause_code == "INVALID_INPUT"


@pytest.mark.req("F10")
@pytest.mark.slow
async def test_ten_thousand_steps_cost_the_same_each(sqlite: Engines) -> None:
    marks: list[float] = []

    async def mark(n: int) -> int:
        marks.append(time.process_time())
        return n

    @workflow
    async def long_life(ctx: Context) -> int:
        total = 0
        for n in range(10_000):
            total += await ctx.step(mark, n)
        return total

    async with sqlite.new(long_life) as engine:
        run = await engine.start(long_life)
        assert await run.result(60) == sum(range(10_000))

    early, late = marks[3000] - marks[1000], marks[9900] - marks[7900]
    assert late < 2.5 * early + 0.2


@pytest.mark.req("F10", "K6")
async def test_of_many_message_keys_the_youngest_come_along(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.engine.run.endings._KEYS_KEPT", 3)

    @workflow
    async def counter(ctx: Context, seen: list[str]) -> list[str]:
        while len(seen) % 4 != 0 or not seen:
            seen = [*seen, str(await ctx.signal("word"))]
            if len(seen) == 5:
                return seen
        return list(ctx.continue_as_new([*seen, "|"]))

    async with engines.new(counter) as engine:
        run = await engine.start(counter, [])
        for word in ("z", "m", "y", "a"):  # by alphabet others would be kept
            await run.signal("word", word, id=word)

        async def continued() -> bool:
            return "continued" in await kinds(run)

        await until(continued)
        [fact] = [e for e in await all_events(run) if e.kind == "continued"]

        assert fact.data["keys"] == ["signal/m", "signal/y", "signal/a"]


@pytest.mark.req("F10", "K12")
async def test_each_generation_has_the_whole_run_timeout(engines: Engines) -> None:
    @workflow(timeout=1.0)
    async def lives(ctx: Context, n: int) -> str:
        await ctx.step(asyncio.sleep, 0.4)
        return str(ctx.continue_as_new(n - 1)) if n else "done"

    async with engines.new(lives) as engine:
        assert await (await engine.start(lives, 4)).result() == "done"


@pytest.mark.req("F10", "K12")
async def test_run_timeout_counts_in_a_later_generation(replayed_engines: Engines) -> None:
    @workflow(timeout=0.5)
    async def lives(ctx: Context, n: int) -> str:
        if n:
            return str(ctx.continue_as_new(n - 1))
        for _ in range(40):
            await ctx.step(asyncio.sleep, 0.1)
        return "nobody stopped it"

    async with replayed_engines.new(lives) as engine:
        run = await engine.start(lives, 2)
        with pytest.raises(RunTimedOut):
            await run.result()

        assert (await run.state()).generation == 2


@pytest.mark.req("F10", "K13", "K18")
async def test_children_of_an_earlier_generation_end_with_the_run(replayed_engines: Engines) -> None:
    @workflow
    async def child(ctx: Context, name: str) -> Any:
        return await ctx.signal("go")

    @workflow
    async def lives(ctx: Context, n: int) -> Any:
        if n == 0:
            await ctx.start(child, "left")
            await ctx.start(child, "ends")
            ctx.continue_as_new(1)
        return await ctx.signal("go")

    async with replayed_engines.new(child, lives) as engine:
        run = await engine.start(lives, 0)
        await suspended(run)
        started = [event.data["run"] async for event in run.events() if event.kind == "child_started"]
        left, ends = (engine.handle(id) for id in started)
        await ends.signal("go")
        await ends.result(30)
        [continued] = [event.seq async for event in run.events() if event.kind == "continued"]
        fork = await engine.fork(run, at=continued)
        await suspended(fork)
        await fork.cancel()
        with pytest.raises(RunCancelled):
            await fork.result(30)
        assert await left.status() is Status.SUSPENDED, "it is not the fork's"

        await run.cancel()

        with pytest.raises(RunCancelled):
            await left.result(30)
