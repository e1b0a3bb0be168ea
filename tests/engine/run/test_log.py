"""A run's truth is its log: what is recorded, folded and never done again."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from stepwell import Context, workflow
from stepwell.domain import events as ev
from stepwell.domain.ids import RunId
from stepwell.domain.state import fold
from stepwell.domain.status import Status, may_move
from tests.engines import SETTINGS, Engines, all_events, crash, kinds, log, reaches, same, suspended, until


@pytest.mark.req("K1", "K7")
async def test_status_and_output_are_what_the_log_folds_to(engines: Engines) -> None:
    @workflow
    async def count(ctx: Context, start: int) -> int:
        value = await ctx.step(lambda: start + 1)
        await ctx.sleep(0.01)
        return value

    async with engines.new(count) as engine:
        run = await engine.start(count, 41)
        assert await run.result() == 42

        state, info = await run.state(), await run.info()

        assert (state.status, bytes(state.output or b"")) == (info.status, info.output)
        assert info.status is Status.COMPLETED


@pytest.mark.req("K1")
async def test_log_only_grows_and_its_numbers_have_no_gaps(engines: Engines) -> None:
    @workflow
    async def talk(ctx: Context) -> str:
        await ctx.step(str, 1)
        first = await ctx.signal("go")
        await ctx.step(str, 2)
        second = await ctx.signal("go")
        return f"{first}{second}"

    async with engines.new(talk) as engine:
        run = await engine.start(talk)
        seen: list[Any] = []
        for letter in "ab":
            await suspended(run)
            now = await all_events(run)
            assert now[: len(seen)] == seen
            seen = now
            await run.signal("go", letter)
        assert await run.result() == "ab"

        now = await all_events(run)

    assert now[: len(seen)] == seen
    assert [event.seq for event in now] == list(range(1, len(now) + 1))
    assert [event.at for event in now] == sorted(event.at for event in now)


@pytest.mark.req("K1")
async def test_every_prefix_of_a_log_folds_along_the_published_automaton(memory_engines: Engines) -> None:
    @workflow
    async def mixed(ctx: Context) -> str:
        await ctx.step(str, 1)
        await ctx.sleep(0.01)
        return str(await ctx.signal("go"))

    async with memory_engines.new(mixed) as engine:
        run = await engine.start(mixed)
        await suspended(run)
        await run.signal("go", "x")
        await run.result()

        rows = await engine.store.read_log(RunId(run.id))

    statuses = [fold([ev.read(row) for row in rows[: n + 1]]).status for n in range(len(rows))]
    assert statuses[0] is Status.PENDING
    assert statuses[-1] is Status.COMPLETED
    assert all(may_move(before, after) for before, after in pairwise(statuses))


@pytest.mark.req("K5", "K4")
async def test_recorded_step_is_not_executed_again_after_a_crash(engines: Engines) -> None:
    done: list[str] = []
    gate = asyncio.Event()

    async def first() -> dict[str, Any]:
        done.append("first")
        return {"n": 1, "x": [1.5, None, True, "ä"]}

    async def second() -> str:
        done.append("second")
        await gate.wait()
        return "two"

    @workflow
    async def pair(ctx: Context) -> list[Any]:
        return [await ctx.step(first), await ctx.step(second)]

    dying = engines.new(pair)
    await dying.open()
    run = await dying.start(pair)
    await until(lambda: done == ["first", "second"])
    await crash(dying)
    gate.set()

    async with engines.new(pair) as engine:
        result = await engine.handle(run.id).result(15)

    assert same(result, [{"n": 1, "x": [1.5, None, True, "ä"]}, "two"])
    assert done == ["first", "second", "second"]


@pytest.mark.req("K5", "F9")
@pytest.mark.parametrize("value", [0, 1, 1.0, -0.5, True, None, "", "ä\u2028", [], {}, [[1], {"a": [2.0]}]])
async def test_plain_result_comes_back_equal_in_value_and_type(replayed_engines: Engines, value: Any) -> None:
    seen: list[Any] = []

    @workflow
    async def echo(ctx: Context) -> None:
        seen.append(await ctx.step(lambda: value))
        await ctx.sleep(0.01)

    async with replayed_engines.new(echo) as engine:
        await (await engine.start(echo)).result()

    assert len(seen) > 1
    assert all(same(got, value) for got in seen)


@pytest.mark.req("K2")
async def test_step_result_and_what_follows_it_are_one_commit(engines: Engines) -> None:
    """The last result and the run's end are on disk together: no run is seen with one of them only."""

    @workflow
    async def one(ctx: Context) -> int:
        return await ctx.step(lambda: 1)

    async with engines.new(one) as engine:
        run = await engine.start(one)
        seen: set[tuple[bool, bool]] = set()
        while not (await run.status()).terminal:
            found = await kinds(run)
            seen.add(("step_completed" in found, "completed" in found))
            await asyncio.sleep(0)
        await run.result()

        events = await all_events(run)

    assert not {pair for pair in seen if pair == (False, True)}
    assert [e.kind for e in events] == ["accepted", "claimed", "step_completed", "completed"]
    assert len({e.at for e in events[1:3]}) == 1


@pytest.mark.req("K7")
async def test_terminal_is_final(engines: Engines) -> None:
    @workflow
    async def quick(ctx: Context) -> int:
        return 1

    async with engines.new(quick) as engine:
        run = await engine.start(quick)
        await run.result()
        before = await log(run)

        assert await run.cancel() is False
        assert await run.status() is Status.COMPLETED
        assert await log(run) == before


@pytest.mark.req("K7")
async def test_pending_running_and_suspended_are_shown_as_they_are(engines: Engines) -> None:
    gate = asyncio.Event()

    @workflow
    async def lives(ctx: Context) -> str:
        await ctx.step(gate.wait)
        return str(await ctx.signal("go"))

    async with engines.client() as client, engines.new(lives) as engine:
        waiting = await client.start("lives", delay="1h")
        run = await engine.start(lives)
        assert await waiting.status() is Status.PENDING
        await reaches(run, Status.RUNNING)
        gate.set()
        await suspended(run)
        await run.signal("go", 1)
        assert await run.result() == "1"


@pytest.mark.req("K1", "K34")
async def test_engine_that_is_stopped_and_started_goes_on_where_it_was(engines: Engines) -> None:
    done: list[int] = []

    @workflow
    async def steps(ctx: Context) -> int:
        await ctx.step(done.append, 1)
        await ctx.sleep(0.3)
        await ctx.step(done.append, 2)
        return len(done)

    async with engines.new(steps, settings=SETTINGS) as engine:
        run = await engine.start(steps)
        await suspended(run)
    async with engines.new(steps) as engine:
        assert await engine.handle(run.id).result(15) == 2

    assert done == [1, 2]
