"""Limits for every style of workflow, for children, and for runs that bring none along."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from stepwell import (
    Concurrency,
    Context,
    Engine,
    Limit,
    Machine,
    RunHandle,
    Status,
    SyncClient,
    failpoints,
    step,
    transition,
    workflow,
)
from stepwell.errors import InvalidDefinition
from tests.engines import SETTINGS, Engines, suspended, until


class Crowd:
    """How many are inside at once; they leave when the test lets them."""

    def __init__(self) -> None:
        self.inside: list[int] = []
        self.most = 0
        self.ever: list[int] = []
        self.let_go = asyncio.Event()

    async def enter(self, number: int) -> int:
        self.inside.append(number)
        self.ever.append(number)
        self.most = max(self.most, len(self.inside))
        await self.let_go.wait()
        self.inside.remove(number)
        return number


@dataclass
class Place:
    number: int = 0


def machine_of(crowd: Crowd, most: int | None) -> Any:
    class Visit(Machine[Place], concurrency=most):
        @transition("start", "end")
        async def go_in(self, ctx: Context, number: int) -> None:
            await crowd.enter(number)

    return Visit


def function_of(crowd: Crowd, most: int | None) -> Any:
    @workflow(name="Visit", concurrency=most)
    async def visit(ctx: Context, number: int) -> int:
        return await ctx.step(crowd.enter, number)

    return visit


STYLES: list[Callable[[Crowd, int | None], Any]] = [function_of, machine_of]
style = pytest.mark.parametrize("make", STYLES, ids=["function", "machine"])


async def is_full(run: RunHandle[Any]) -> bool:
    return "2 of 2 runs" in (await run.why()).text


async def two_at_a_time(engine: Engine, made: Any, crowd: Crowd, options: dict[str, Any]) -> None:
    runs = [await engine.start(made, number, **options) for number in range(5)]
    await until(lambda: len(crowd.inside) == 2)
    await until(lambda: is_full(runs[4]))

    assert crowd.ever == [0, 1]
    crowd.let_go.set()
    for run in runs:
        await run.result()
    assert crowd.most == 2


@pytest.mark.req("K19", "A1")
@style
async def test_functions_and_machines_have_a_concurrency_of_their_own(
    memory_engines: Engines, make: Callable[[Crowd, int | None], Any]
) -> None:
    crowd = Crowd()
    made = make(crowd, 2)
    async with memory_engines.new(made) as engine:
        await two_at_a_time(engine, made, crowd, {})


@pytest.mark.req("K19")
@style
async def test_it_counts_for_those_who_start_by_name_too(
    memory_engines: Engines, make: Callable[[Crowd, int | None], Any]
) -> None:
    crowd = Crowd()
    async with memory_engines.new(make(crowd, 2)) as engine:
        await two_at_a_time(engine, "Visit", crowd, {})


@pytest.mark.req("K19")
@style
async def test_a_key_limits_either_style(
    memory_engines: Engines, make: Callable[[Crowd, int | None], Any]
) -> None:
    crowd = Crowd()
    made = make(crowd, None)
    async with memory_engines.new(made) as engine:
        await two_at_a_time(engine, made, crowd, {"concurrency": Concurrency("customer/7", 2)})


@pytest.mark.req("K19", "T4")
@style
async def test_a_limit_that_is_set_counts_runs_that_bring_none(
    engines: Engines, make: Callable[[Crowd, int | None], Any]
) -> None:
    crowd = Crowd()
    made = make(crowd, None)
    async with engines.new(made) as engine:
        await engine.set_limit("queue", "default", 2)
        await two_at_a_time(engine, made, crowd, {})


Waits = Callable[[Context, Any], Awaitable[int]]


async def plainly(ctx: Context, child: Any) -> int:
    return int(await child.result())


async def with_glances(ctx: Context, child: Any) -> int:
    """Looks up every now and then, each time for less than a lease is kept: it never rests for long."""
    asked = asyncio.ensure_future(child.result())
    while not asked.done():
        await asyncio.wait([asked, asyncio.ensure_future(ctx.sleep(0.05))], return_when="FIRST_COMPLETED")
    return int(await asked)


@pytest.mark.req("K19", "K11")
@pytest.mark.parametrize("wait", [plainly, with_glances])
async def test_a_child_does_not_wait_for_ever_for_the_slot_of_its_parent(
    engines: Engines, wait: Waits
) -> None:
    @workflow(concurrency=1)
    async def nested(ctx: Context, depth: int) -> int:
        if depth == 0:
            return 0
        child = await ctx.start(nested, depth - 1)
        return 1 + await wait(ctx, child)

    async with engines.new(nested, settings=replace(SETTINGS, keep_lease_seconds=2.0)) as engine:
        runs = [await engine.start(nested, 2) for _ in range(3)]

        assert [await run.result(30) for run in runs] == [2, 2, 2]


@pytest.mark.req("K19", "K11")
async def test_children_count_and_go_before_runs_that_have_not_begun(engines: Engines) -> None:
    order: list[str] = []
    now = most = 0

    @step
    async def work(name: str) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        order.append(name)
        await asyncio.sleep(0.005)
        now -= 1

    @workflow
    async def part(ctx: Context, name: str) -> None:
        await ctx.step(work, name)

    @workflow
    async def whole(ctx: Context, name: str) -> None:
        await ctx.run(part, name)

    async with engines.new(whole, part) as engine:
        await engine.set_limit("queue", "default", 1)
        runs = [await engine.start(whole, name) for name in "abcd"]
        for run in runs:
            await run.result(30)

    assert most == 1
    assert order == ["a", "b", "c", "d"]


@pytest.mark.req("K19", "K11")
async def test_a_run_that_holds_its_slot_to_the_end_shares_it_with_its_children(engines: Engines) -> None:
    @workflow
    async def nested(ctx: Context, depth: int) -> int:
        if depth == 0:
            return int(await ctx.signal("go"))
        return 1 + await ctx.run(nested, depth - 1)

    async with engines.new(nested) as engine:
        await engine.set_limit("workflow", "nested", 1, hold="run")
        first, second = await engine.start(nested, 2), await engine.start(nested, 0)
        deepest = await until(lambda: third_run(engine))
        await suspended(engine.handle(deepest))

        assert await second.status() is Status.PENDING
        assert "1 of 1 runs" in (await second.why()).text
        await engine.handle(deepest).signal("go", 5)
        assert await first.result() == 7
        await suspended(second)


async def third_run(engine: Engine) -> str:
    runs = [run for run in await engine.runs() if run.parent]
    grandchildren = [run.id for run in runs if run.parent in {other.id for other in runs}]
    return grandchildren[0] if grandchildren else ""


@pytest.mark.req("K19", "T4")
def test_limits_can_be_set_without_async(sqlite: Engines) -> None:
    with SyncClient(str(sqlite.database)) as client:
        client.set_limit("queue", "default", 3)
        client.set_limit("workflow", "Visit", 1, hold="run")

        assert client.limits() == [
            Limit(kind="queue", name="default", limit=3),
            Limit(kind="workflow", workspace="default", name="Visit", limit=1, hold="run"),
        ]
        assert client.drop_limit("queue", "default")
        assert not client.drop_limit("queue", "default")


@pytest.mark.req("K19", "R2")
@pytest.mark.parametrize("moment", ["before", "mid", "ambiguous"])
async def test_a_limit_is_dropped_whatever_becomes_of_the_answer(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    async with engines.client() as client:
        await client.set_limit("queue", "default", 3)
        monkeypatch.setattr(failpoints, "hit", failpoints.parse(f"drop_limit.{moment}=raise"))

        assert await client.drop_limit("queue", "default")
        assert await client.limits() == []


@pytest.mark.req("K19")
@style
def test_a_concurrency_of_none_at_all_is_refused(make: Callable[[Crowd, int | None], Any]) -> None:
    with pytest.raises(InvalidDefinition, match="concurrency=0"):
        make(Crowd(), 0)
