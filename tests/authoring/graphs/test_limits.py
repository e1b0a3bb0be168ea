"""How many graphs are active at once: 10 of a workflow, 50 of a workspace, the others wait in order."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from stepwell import Concurrency, Context, Limit, RunHandle, Status, node, step, workflow
from stepwell.errors import InvalidDefinition, InvalidInput
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import Engines, suspended, until

CAP = 10


class Gates:
    """A node that stands still until the test opens the gate of its run."""

    def __init__(self) -> None:
        self.inside: list[str] = []  # in the order in which they began
        self._open: dict[str, asyncio.Event] = {}

    def node(self) -> Any:
        @node("gate")
        async def gate(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> str:
            run = helpers.key.split("/")[0]
            self.inside.append(run)
            await self._gate(run).wait()
            return "through"

        return gate

    def has(self, count: int) -> bool:
        return len(self.inside) == count

    def open(self, run: RunHandle[Any]) -> None:
        self._gate(run.id).set()

    def _gate(self, run: str) -> asyncio.Event:
        return self._open.setdefault(run, asyncio.Event())


def gated(**settings: Any) -> dict[str, Any]:
    return chart([START, a("G", "gate"), a("Z", "end", output={"ok": True})], "S>G G>Z", **settings)


async def started(engine: Any, count: int) -> list[RunHandle[Any]]:
    return [await engine.start("chart", {}) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.req("K19", "K28", "G11")
async def test_the_eleventh_run_stays_pending_and_starts_when_a_slot_is_free(engines: Engines) -> None:
    gates = Gates()
    async with engines.new(gated(), nodes=[gates.node()]) as engine:
        runs = await started(engine, CAP + 3)
        await until(lambda: len(gates.inside) == CAP)
        why = await runs[CAP].why()

        assert [await run.status() for run in runs[CAP:]] == [Status.PENDING] * 3
        assert why.code == "limit"
        assert "workflow 'chart' is reached: 10 of 10 runs; held by" in why.text
        for count, number in enumerate((4, 0, 7), start=1):
            gates.open(runs[number])
            await until(partial(gates.has, CAP + count))
        assert gates.inside[CAP:] == [run.id for run in runs[CAP:]]
        for run in runs:
            gates.open(run)
        for run in runs:
            assert await run.result() == {"ok": True}
        assert await engine.store.read_lanes() == []


@pytest.mark.slow
@pytest.mark.req("K19")
async def test_suspended_graphs_hold_no_slot(engines: Engines) -> None:
    body = chart(
        [START, a("H", "approval"), a("Z", "end", output={"ok": True})], "S>H H-approved>Z", concurrency=2
    )
    async with engines.new(body) as engine:
        runs = await started(engine, 6)

        for run in runs:
            await suspended(run)


@pytest.mark.slow
@pytest.mark.req("K19", "T4")
async def test_a_limit_is_changed_while_runs_wait_for_it(engines: Engines) -> None:
    gates = Gates()
    async with engines.new(gated(concurrency=1), nodes=[gates.node()]) as engine:
        runs = await started(engine, 5)
        await until(lambda: len(gates.inside) == 1)

        await engine.set_limit("workflow", "chart", 3)
        await until(lambda: len(gates.inside) == 3)
        assert await engine.limits() == [Limit(kind="workflow", workspace="default", name="chart", limit=3)]
        await engine.set_limit("workspace", limit=4)
        await engine.set_limit("workflow", "chart", None)
        await until(lambda: len(gates.inside) == 4)
        assert "workspace 'default' is reached: 4 of 4" in (await runs[4].why()).text
        assert await engine.drop_limit("workspace")
        await until(lambda: len(gates.inside) == 5)

        for run in runs:
            gates.open(run)
        for run in runs:
            await run.result()


@pytest.mark.slow
@pytest.mark.req("K19")
async def test_one_run_for_each_customer_from_start_to_end(engines: Engines) -> None:
    @workflow
    async def serve(ctx: Context, customer: str) -> str:
        return str(await ctx.signal("done"))

    async with engines.new(serve) as engine:
        one = Concurrency("customer/7", 1, "run")
        first = await engine.start(serve, "7", concurrency=one)
        await suspended(first)
        second = await engine.start(serve, "7", concurrency=one)
        other = await engine.start(serve, "8", concurrency=Concurrency("customer/8", 1, "run"))
        await suspended(other)

        assert await second.status() is Status.PENDING
        assert f"key 'customer/7' is reached: 1 of 1 runs; held by {first.id}" in (await second.why()).text
        await first.signal("done", "1")
        assert await first.result() == "1"
        await suspended(second)


@pytest.mark.slow
@pytest.mark.req("K19")
async def test_functions_have_a_concurrency_of_their_own(memory_engines: Engines) -> None:
    inside, most = 0, 0

    @step
    async def enter(name: str) -> str:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.01)
        inside -= 1
        return name

    @workflow(concurrency=2)
    async def narrow(ctx: Context, name: str) -> str:
        return await ctx.step(enter, name)

    async with memory_engines.new(narrow) as engine:
        runs = [await engine.start(narrow, str(number)) for number in range(6)]

        assert [await run.result() for run in runs] == ["0", "1", "2", "3", "4", "5"]
    assert most == 2


@pytest.mark.req("K19")
async def test_limits_that_make_no_sense_are_refused(memory_engines: Engines) -> None:
    with pytest.raises(InvalidDefinition, match="concurrency=0"):
        workflow(concurrency=0)
    async with memory_engines.client() as engine:
        with pytest.raises(InvalidInput, match="is not a kind of limit"):
            await engine.set_limit("planet", "earth", 1)  # type: ignore[arg-type]  # as from JSON
        with pytest.raises(InvalidInput, match="a limit cannot be -1"):
            await engine.set_limit("queue", "default", -1)
        with pytest.raises(InvalidInput, match="has no name"):
            await engine.set_limit("workspace", "default", 1)
