"""Operators: skip the step that failed a run, with a given output."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import (
    Context,
    Machine,
    NodeError,
    Permanent,
    Retry,
    RunHandle,
    node,
    step,
    transition,
    workflow,
)
from stepwell.domain.status import Status
from stepwell.errors import NotSkippable, PayloadTooLarge, RunFailed, RunTimedOut
from tests.authoring.graphs.graphs import START, a, chart, traced
from tests.engines import Engines

TRIES: list[str] = []


@pytest.fixture(autouse=True)
def _no_tries() -> None:
    TRIES.clear()


@step(retry=Retry(2, delay=0.001))
async def charge(amount: int) -> int:
    TRIES.append("charge")
    raise ValueError("no such card")


@step
async def ship(paid: int) -> str:
    TRIES.append("ship")
    return f"shipped for {paid}"


@workflow
async def order(ctx: Context, amount: int) -> str:
    return await ctx.step(ship, await ctx.step(charge, amount))


@workflow
async def both(ctx: Context, amount: int) -> list[Any]:
    paid, sent = await asyncio.gather(ctx.step(charge, amount), ctx.step(ship, amount))
    return [paid, sent]


@workflow
async def own_code(ctx: Context, amount: int) -> str:
    raise Permanent("a bug")


@workflow
async def with_child(ctx: Context, amount: int) -> str:
    return await ctx.run(order, amount)


@workflow(timeout=0.05)
async def slow(ctx: Context, amount: int) -> None:
    await ctx.step(hangs)


@step
async def hangs() -> None:
    await asyncio.sleep(60)


class Sale(Machine[dict[str, Any]]):
    @transition("start", "paid")
    async def pay(self, ctx: Context) -> None:
        self.state["paid"] = await ctx.step(charge, 1)

    @transition("paid", "end")
    async def send(self, ctx: Context) -> None:
        self.state["sent"] = await ctx.step(ship, self.state["paid"])


async def failed(run: RunHandle[Any]) -> None:
    with pytest.raises(RunFailed):
        await run.result("20s")


@pytest.mark.req("K39")
async def test_a_function_continues_with_the_given_output(engines: Engines) -> None:
    async with engines.new(order) as engine:
        run = await engine.start(order, 5)
        await failed(run)

        await run.skip(7, path="0/charge#1", by="ann", reason="paid in cash")

        assert await run.result("20s") == "shipped for 7"
        assert TRIES == ["charge", "charge", "ship"], "the skipped step was not tried again"
        events = {event.kind: event async for event in run.events()}
        assert events["retried"].data == {"path": "0/charge#1", "by": "ann", "reason": "paid in cash"}
        skips = [e.data async for e in run.events() if e.kind == "step_completed" and e.path == "0/charge#1"]
        assert skips == [{"result": 7, "skipped": True}]
        state = await run.state()
        assert state.steps["0/charge#1"].status == "completed"


@pytest.mark.req("K39")
async def test_what_other_branches_did_is_kept(engines: Engines) -> None:
    async with engines.new(both) as engine:
        run = await engine.start(both, 5)
        await failed(run)

        await run.skip(7)

        assert await run.result("20s") == [7, "shipped for 5"]
        assert TRIES.count("ship") == 1


@pytest.mark.req("K39", "M3")
async def test_a_machine_continues_with_the_given_output(engines: Engines) -> None:
    async with engines.new(Sale) as engine:
        run = await engine.start(Sale)
        await failed(run)

        await run.skip(7)

        assert await run.result("20s") == {"paid": 7, "sent": "shipped for 7"}
        assert TRIES == ["charge", "charge", "ship"]


@pytest.mark.req("K39", "G12")
async def test_a_graph_continues_with_the_given_output(engines: Engines) -> None:
    @node("fragile")
    async def fragile(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> None:
        TRIES.append(helpers.node)
        raise NodeError("E", "broken", config=True)

    body = chart(
        [START, a("A", "fragile", outputVariable="a"), a("Z", "end", output={"a": "{{ctx.a}}"})], "S>A A>Z"
    )
    async with engines.new(body, nodes=[fragile]) as engine:
        run = await engine.start("chart", {})
        await failed(run)

        await run.skip({"sum": 3})

        assert await run.result("20s") == {"a": {"sum": 3}}
        assert TRIES == ["A"]
        assert (await traced(run))["A"].status == "completed"


@pytest.mark.req("K39")
async def test_what_cannot_be_skipped_says_why(engines: Engines) -> None:
    async with engines.new(order, own_code, with_child, slow) as engine:
        by_code = await engine.start(own_code, 1)
        by_child = await engine.start(with_child, 1)
        by_step = await engine.start(order, 1)
        for run in (by_code, by_child, by_step):
            await failed(run)
        late = await engine.start(slow, 1)
        with pytest.raises(RunTimedOut):
            await late.result("20s")

        with pytest.raises(NotSkippable, match="in its own code"):
            await by_code.skip(1)
        with pytest.raises(NotSkippable, match="its child at 0/child:order#1"):
            await by_child.skip(1)
        with pytest.raises(NotSkippable, match="has not failed"):
            await late.skip(1)
        with pytest.raises(NotSkippable, match="did not fail at '0/ship#1'"):
            await by_step.skip(1, path="0/ship#1")
        with pytest.raises(PayloadTooLarge):
            await by_step.skip("x" * 3_000_000)
        assert await by_step.status() is Status.FAILED

        await by_step.skip(1)
        await by_step.result("20s")
        with pytest.raises(NotSkippable, match="has not failed"):
            await by_step.skip(1)


@pytest.mark.req("K39")
async def test_an_output_of_the_wrong_type_fails_the_run_again(engines: Engines) -> None:
    async with engines.new(order) as engine:
        run = await engine.start(order, 5)
        await failed(run)

        await run.skip("not a number")
        await failed(run)
        assert TRIES == ["charge", "charge"]
