"""What the row of a run shows: how far it is, and the tokens that its steps used."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from stepwell import (
    Context,
    Machine,
    Permanent,
    Retry,
    RunHandle,
    StepContext,
    node,
    step,
    transition,
    workflow,
)
from stepwell.errors import RunFailed
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import Engines, crash, suspended, until


@step(retry=Retry(3, delay=0.01))
async def ask(ctx: StepContext, prompt: str) -> str:
    """A model that answers the second time; a refused answer costs as well."""
    ctx.usage(input_tokens=len(prompt), cost=0.5)
    ctx.usage(output_tokens=2)
    if ctx.attempt == 1:
        raise ValueError("refused")
    return prompt.upper()


@step(isolation="process", retry=Retry(2, delay=0.01))
def ask_apart(ctx: StepContext, prompt: str) -> str:
    ctx.usage(input_tokens=10)
    if ctx.attempt == 1:
        raise ValueError("refused")
    return prompt


@step
async def silent(prompt: str) -> str:
    return prompt


@workflow
async def asks(ctx: Context, n: int) -> list[str]:
    return [await ctx.step(silent, "no"), *[await ctx.step(ask, "abc") for _ in range(n)]]


@workflow
async def asks_apart(ctx: Context, n: int) -> str:
    return await ctx.step(ask_apart, "x")


@workflow
async def asks_far(ctx: Context, n: int) -> str:
    return await ctx.step.on(queue="far")(ask, "far")


@workflow
async def goes_on(ctx: Context, n: int) -> str:
    """A new generation for each question: its owner reads only the last part of the log."""
    answer = await ctx.step(ask, "ab")
    if n > 1:
        ctx.continue_as_new(n - 1)
    return answer


@workflow
async def counts(ctx: Context, n: int) -> str:
    for done in range(n):
        ctx.progress(done, n, "carrying")
        await ctx.step(silent, "x")
    await ctx.signal("go")
    ctx.progress(n, n)
    return "done"


class TalkState(msgspec.Struct):
    said: list[str] = []


class Talk(Machine[TalkState]):
    @transition("start", "asked")
    async def first(self, ctx: Context, state: TalkState) -> None:
        state.said.append(await ctx.step(ask, "abcd"))

    @transition("asked", "end")
    async def second(self, ctx: Context, state: TalkState) -> None:
        state.said.append(await ctx.step(ask, "ab"))


@node("test:model")
async def model(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> dict[str, Any]:
    helpers.usage(input_tokens=7, output_tokens=3, cost=0.25)
    return {"text": "hello"}


async def used(run: RunHandle[Any]) -> tuple[int, int, float]:
    row, state = await run.info(), await run.state()
    usage = (row.input_tokens, row.output_tokens, row.cost)
    assert usage == (state.usage.input_tokens, state.usage.output_tokens, state.usage.cost)
    overview = await run.overview()
    assert usage == (overview.input_tokens, overview.output_tokens, overview.cost)
    return usage


@pytest.mark.req("K38")
async def test_tokens_of_all_attempts_are_counted_on_the_run_and_shown_in_its_trace(engines: Engines) -> None:
    async with engines.new(asks) as engine:
        run = await engine.start(asks, 2)
        assert await run.result("20s") == ["no", "ABC", "ABC"]

        assert await used(run) == (12, 8, 2.0)
        [listed] = await engine.runs()
        assert (listed.input_tokens, listed.output_tokens, listed.cost) == (12, 8, 2.0)
        usages = [entry.usage for entry in await run.trace()]
        once = {"input_tokens": 6, "output_tokens": 4, "cost": 1.0}
        assert usages == [None, once, once]


@pytest.mark.req("K38")
async def test_usage_never_asks_for_a_commit_of_its_own(memory_engines: Engines) -> None:
    async with memory_engines.new(asks) as engine:
        run = await engine.start(asks, 1)
        await run.result("20s")
        events = [event async for event in run.events()]

    for event in events:
        if event.kind == "usage_reported":
            after = events[event.seq]
            assert after.kind in ("step_completed", "step_failed")
            assert (after.path, after.at) == (event.path, event.at)


@pytest.mark.req("K38")
async def test_tokens_of_a_step_elsewhere_are_counted(engines: Engines) -> None:
    async with (
        engines.new(asks_apart, asks_far) as engine,
        engines.new(steps=[ask], queues=["far"]),
    ):
        apart, far = await engine.start(asks_apart, 1), await engine.start(asks_far, 1)
        await apart.result("30s")
        await far.result("30s")

        assert await used(apart) == (20, 0, 0.0)
        assert await used(far) == (6, 4, 1.0)


@pytest.mark.req("K38")
async def test_tokens_add_up_over_generations_and_transitions(engines: Engines) -> None:
    async with engines.new(goes_on, Talk) as engine:
        function, machine = await engine.start(goes_on, 3), await engine.start(Talk, TalkState())
        await function.result("20s")
        await machine.result("20s")

        assert await used(function) == (12, 12, 3.0)
        assert await used(machine) == (12, 8, 2.0)


@pytest.mark.req("K38", "N25")
async def test_a_node_counts_its_tokens_and_a_fork_only_its_own(engines: Engines) -> None:
    nodes = [START, a("A", "test:model"), a("B", "test:model"), a("Z", "end", output={"ok": True})]
    async with engines.new(chart(nodes, "S>A A>B B>Z"), nodes=[model]) as engine:
        run = await engine.start("chart", {})
        await run.result("20s")
        again = await engine.rerun_from(run.id, "B")
        await again.result("20s")

        assert await used(run) == (14, 6, 0.5)
        assert await used(again) == (7, 3, 0.25)
        trace = {entry.name: entry.usage for entry in await run.trace()}
        assert trace["A"] == {"input_tokens": 7, "output_tokens": 3, "cost": 0.25}
        assert trace["S"] is None


@step
async def careless(ctx: StepContext, what: str) -> None:
    wrong: dict[str, Any] = {
        "negative": {"input_tokens": -1},
        "text": {"output_tokens": "7"},
        "half": {"input_tokens": 0.5},
        "nan": {"cost": float("nan")},
        "less": {"cost": -0.01},
        "huge": {"input_tokens": 10**13},
    }
    try:
        ctx.usage(**wrong[what])
    except Exception as error:
        raise Permanent(f"{type(error).__name__}: {error}") from None


@workflow
async def miscounts(ctx: Context, what: str) -> None:
    await ctx.step(careless, what)


@pytest.mark.req("K38")
@pytest.mark.parametrize("what", ["negative", "text", "half", "nan", "less", "huge"])
async def test_usage_that_cannot_be_counted_is_refused(memory_engines: Engines, what: str) -> None:
    async with memory_engines.new(miscounts) as engine:
        run = await engine.start(miscounts, what)
        with pytest.raises(RunFailed, match="InvalidInput"):
            await run.result("20s")

        assert await used(run) == (0, 0, 0.0)


@pytest.mark.req("K38", "G10")
async def test_the_row_of_a_run_says_how_far_its_loop_is(engines: Engines) -> None:
    inner = a("inner", "loop", "each", times=3)
    nodes = [
        START,
        a("each", "loop", times=3, outputVariable="all"),
        inner,
        a("V", "set", "inner", values={"x": 1}),
        a("W", "wait", "each", mode="event", event="next"),
        a("Z", "end", output={"count": "{{ctx.all.count}}"}),
    ]
    async with engines.new(chart(nodes, "S>each inner>W each>Z")) as engine:
        run = await engine.start("chart", {})
        await suspended(run)
        assert await far(run) == (0, 3)

        await run.event("next", {})
        await until(lambda: reached(run, (1, 3)))
        await run.event("next", {})
        await until(lambda: reached(run, (2, 3)))
        [listed] = await engine.runs()
        assert (listed.done, listed.total) == (2, 3)
        overview = await run.overview()
        assert (overview.done, overview.total) == (2, 3)
        await run.event("next", {})
        assert await run.result("20s") == {"count": 3}
        assert await far(run) == (3, 3)


async def far(run: RunHandle[Any]) -> tuple[float | None, float | None]:
    row = await run.info()
    return row.done, row.total


async def reached(run: RunHandle[Any], mark: tuple[int, int]) -> bool:
    return await far(run) == mark


@pytest.mark.req("K38")
async def test_progress_of_code_is_on_the_row_and_survives_the_worker(engines: Engines) -> None:
    engine = engines.new(counts)
    await engine.open()
    run = await engine.start(counts, 3)
    await suspended(run)
    assert await far(run) == (2, 3)
    await crash(engine)

    async with engines.new(counts) as other:
        handle = other.handle(run.id)
        assert await far(handle) == (2, 3)
        await handle.signal("go")
        await handle.result("20s")
        assert await far(handle) == (3, 3)


@pytest.mark.req("K38")
async def test_many_runs_count_at_once(engines: Engines) -> None:
    async with engines.new(asks, counts) as engine:
        runs = [await engine.start(asks, 1) for _ in range(20)]
        await asyncio.gather(*(run.result("40s") for run in runs))

        assert {await used(run) for run in runs} == {(6, 4, 1.0)}
