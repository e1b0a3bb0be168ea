"""Steps and workflows as functions: sync and async, named, typed, with recorded values."""

from __future__ import annotations

import asyncio
import functools
import threading
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stepwell import Context, RunFailed, StepContext, SyncContext, step, workflow
from stepwell.errors import InvalidDefinition
from tests.engines import Engines, all_events, log, suspended


def plain(a: int, b: int = 2) -> int:
    return a + b


async def later(a: int, b: int = 2) -> int:
    await asyncio.sleep(0)
    return a * b


class Adder:
    def __call__(self, a: int) -> int:
        return a + 100

    def method(self, a: int) -> int:
        return a + 200


@pytest.mark.req("F1")
async def test_any_function_is_a_step(replayed_engines: Engines) -> None:
    @workflow
    async def calls(ctx: Context) -> list[Any]:
        return [
            await ctx.step(plain, 1),
            await ctx.step(plain, 1, b=5),
            await ctx.step(later, 3, b=3),
            await ctx.step(lambda: "lambda"),
            await ctx.step(functools.partial(plain, 1), 9),
            await ctx.step(Adder(), 1),
            await ctx.step(Adder().method, 1),
            await ctx.step(str, 5),
            await ctx.step(max, [1, 3, 2]),
        ]

    async with replayed_engines.new(calls) as engine:
        assert await (await engine.start(calls)).result() == [3, 6, 9, "lambda", 10, 101, 201, "5", 3]


@pytest.mark.req("F1")
async def test_plain_function_runs_in_a_thread_and_never_blocks_the_engine(memory_engines: Engines) -> None:
    first, second = threading.Event(), threading.Event()

    def one() -> bool:
        first.set()
        return second.wait(10)

    def two() -> bool:
        second.set()
        return first.wait(10)

    @workflow
    async def both(ctx: Context) -> list[bool]:
        return list(await asyncio.gather(ctx.step(one), ctx.step(two)))

    async with memory_engines.new(both) as engine:
        assert await (await engine.start(both)).result() == [True, True]


@pytest.mark.req("F1")
async def test_name_comes_from_the_function_or_from_name(replayed_engines: Engines) -> None:
    @step(name="charge card")
    async def charge() -> str:
        return "charged"

    @workflow(name="shop.order", version="7")
    async def order(ctx: Context) -> str:
        await ctx.step(plain, 1)
        await ctx.step(charge)
        return await ctx.step(charge.options(name="charge again"))

    async with replayed_engines.new(order) as engine:
        run = await engine.start(order)
        await run.result()
        info, found = await run.info(), await log(run)

    assert (info.workflow, info.version) == ("shop.order", "7")
    paths = [line.removeprefix("step_completed ") for line in found if line.startswith("step_completed")]
    assert paths == ["0/plain#1", "0/charge card#1", "0/charge again#1"]


@pytest.mark.req("F1")
async def test_plain_function_is_a_workflow(replayed_engines: Engines) -> None:
    @workflow
    def order(ctx: SyncContext, start: int) -> list[Any]:
        total = 0
        for n in range(3):
            total = ctx.step(plain, total, n)
        ctx.sleep(0.01)
        word = ctx.signal("go", str)
        return [total, word, ctx.map(later, [1, 2]), ctx.all([(plain, 1), (later, 2)])]

    async with replayed_engines.new(order) as engine:
        run = await engine.start(order, 0)
        await run.signal("go", "on")

        assert await run.result() == [3, "on", [2, 4], [3, 4]]


@pytest.mark.req("F1")
async def test_plain_workflows_do_not_starve_their_own_steps(memory_engines: Engines) -> None:
    @workflow
    def order(ctx: SyncContext, n: int) -> int:
        return ctx.step(plain, n) + ctx.step(plain, n)

    async with memory_engines.new(order) as engine:
        runs = await engine.start_many(order, range(100))
        assert [await run.result() for run in runs] == [2 * n + 4 for n in range(100)]


@pytest.mark.req("F1")
async def test_step_outside_a_run_is_an_ordinary_function() -> None:
    @step
    async def double(me: StepContext, n: int) -> int:
        return n * me.attempt * 2

    @step
    def half(n: int) -> float:
        return n / 2

    assert await double(4) == 8
    assert half(4) == 2


@pytest.mark.req("F1")
@pytest.mark.parametrize("name", ["", "a/b", "a#b", "a~b", "x" * 201, "nul\x00"])
async def test_name_that_cannot_be_kept_is_refused(name: str) -> None:
    if name:
        with pytest.raises(InvalidDefinition, match="name"):
            step(name=name)(plain)
        with pytest.raises(InvalidDefinition, match="name"):
            workflow(name=name)(lambda ctx: None)


@pytest.mark.req("F1")
async def test_generator_and_two_inputs_are_refused() -> None:
    with pytest.raises(InvalidDefinition, match="generator"):

        @step
        def many() -> Any:
            yield 1

    with pytest.raises(InvalidDefinition, match="input"):

        @workflow  # type: ignore[arg-type]  # that is the test
        async def wide(ctx: Context, a: int, b: int) -> None: ...


@pytest.mark.req("F5")
async def test_recorded_values_are_the_same_on_replay(replayed_engines: Engines) -> None:
    seen: list[tuple[Any, ...]] = []

    @workflow
    async def values(ctx: Context) -> list[str]:
        now, chance, name, later_chance = ctx.now(), ctx.random(), ctx.uuid(), ctx.random()
        seen.append((now, chance, name, later_chance))
        await ctx.step(plain, 1)
        await ctx.sleep(0.02)
        after = ctx.now()
        return [now.isoformat(), after.isoformat(), str(name), ctx.key, ctx.run_id]

    async with replayed_engines.new(values) as engine:
        began = datetime.now(UTC)
        run = await engine.start(values, key="my-key")
        now, after, name, key, run_id = await run.result()

    assert len(seen) > 1
    assert len(set(seen)) == 1
    assert (key, run_id) == ("my-key", run.id)
    assert uuid.UUID(name).version == 4
    assert 0 <= seen[0][1] < 1
    assert seen[0][1] != seen[0][3]
    assert began - timedelta(seconds=1) < datetime.fromisoformat(now) < datetime.fromisoformat(after)


@pytest.mark.req("F5")
async def test_random_values_of_two_runs_and_two_places_differ(memory_engines: Engines) -> None:
    @workflow
    async def values(ctx: Context) -> list[str]:
        async def branch() -> str:
            return str(ctx.uuid())

        return [str(ctx.uuid()), str(ctx.uuid()), *await asyncio.gather(branch(), branch())]

    async with memory_engines.new(values) as engine:
        found = [value for _ in range(3) for value in await (await engine.start(values)).result()]

    assert len(set(found)) == 12


@pytest.mark.req("F5")
async def test_attempt_counts_how_often_a_worker_took_the_run(memory_engines: Engines) -> None:
    @workflow
    async def counted(ctx: Context) -> int:
        await ctx.signal("go")
        return ctx.attempt

    async with memory_engines.new(counted) as engine:
        run = await engine.start(counted)
        await suspended(run)
        await run.signal("go")

        assert await run.result() == 2


@pytest.mark.req("F5", "K9")
async def test_key_of_a_step_is_its_own(replayed_engines: Engines) -> None:
    @step
    async def keyed(me: StepContext) -> str:
        return me.key

    @workflow
    async def calls(ctx: Context) -> list[str]:
        return [
            await ctx.step(keyed),
            await ctx.step(keyed),
            *await ctx.all(ctx.step(keyed), ctx.step(keyed)),
        ]

    async with replayed_engines.new(calls) as engine:
        one = await (await engine.start(calls)).result()
        two = await (await engine.start(calls)).result()

    assert len({*one, *two}) == 8


@pytest.mark.req("F12")
async def test_news_are_recorded_once_and_in_order(replayed_engines: Engines) -> None:
    @workflow
    async def tells(ctx: Context) -> None:
        for n in range(3):
            ctx.progress(n, 3, f"step {n}")
            ctx.publish("said", {"n": n})
            await ctx.step(plain, n)

    async with replayed_engines.new(tells) as engine:
        run = await engine.start(tells)
        await run.result()
        events = await all_events(run)
        state = await run.state()

    assert [e.data["data"]["n"] for e in events if e.kind == "published"] == [0, 1, 2]
    assert [e.data["text"] for e in events if e.kind == "progress"] == ["step 0", "step 1", "step 2"]
    assert state.progress is not None
    assert (state.progress.done, state.progress.total) == (2, 3)


@pytest.mark.parametrize("retry", [3, None, "twice"])
def test_a_retry_that_is_none_is_refused_where_it_is_written(retry: Any) -> None:
    with pytest.raises(InvalidDefinition) as refused:
        step(retry=retry)
    with pytest.raises(InvalidDefinition):
        step(later).options(retry=retry)

    assert "Retry(3)" in str(refused.value)


@workflow
async def counts(ctx: Context) -> str:
    return 1  # type: ignore[return-value]  # the mistake


async def test_a_result_of_the_wrong_type_is_called_the_result(memory_engines: Engines) -> None:
    async with memory_engines.new(counts) as engine:
        with pytest.raises(RunFailed, match=r"the workflow's result: .*str") as failed:
            await (await engine.start(counts)).result()

    assert "annotat" in str(failed.value)
