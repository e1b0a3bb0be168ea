"""Operators: hold and release a workflow, a queue or everything; test runs beside production."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, RunHandle, step, workflow
from stepwell.domain.scope_holds import HoldKind
from stepwell.domain.status import Status
from stepwell.errors import InvalidInput
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import Engines, suspended, until

DONE: list[str] = []
GATES: dict[str, asyncio.Event] = {}


def gate(name: str) -> asyncio.Event:
    return GATES.setdefault(name, asyncio.Event())


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()
    GATES.clear()


@step
async def work(name: str) -> str:
    DONE.append(name)
    await gate(name).wait()
    return name


@workflow
async def two_steps(ctx: Context, n: int) -> str:
    return await ctx.step(work, "first") + await ctx.step(work, "second")


@workflow
async def waits(ctx: Context, n: int) -> str:
    return str(await ctx.signal("go"))


async def parked(run: RunHandle[Any]) -> bool:
    return not any(ticket.lease for ticket in await run._client.store.read_tickets(run.id))


SCOPES: list[tuple[HoldKind, str]] = [("workflow", "two_steps"), ("queue", "default"), ("workspace", "")]


@pytest.mark.req("K39")
@pytest.mark.parametrize(("kind", "name"), SCOPES)
async def test_active_runs_stop_and_new_ones_wait_until_the_release(
    engines: Engines, kind: HoldKind, name: str
) -> None:
    async with engines.new(two_steps) as engine:
        run = await engine.start(two_steps, 1)
        await until(lambda: DONE == ["first"])

        assert await engine.hold(kind, name, by="ann", reason="audit")
        assert not await engine.hold(kind, name)
        later = await engine.start(two_steps, 2)
        assert engine.worker is not None
        active = engine.worker.active
        await until(lambda: getattr(active[run.id, ""], "draining", False))
        gate("first").set()
        gate("second").set()
        await until(lambda: parked(run))

        assert DONE == ["first"]
        for waiting in (run, later):
            reason = await waiting.why()
            assert reason.code == "held"
            assert f"ann held {kind} '{name or 'default'}' at " in reason.text
            assert ": audit; release it" in reason.text
        [held] = await engine.holds()
        assert (held.kind, held.name, held.by, held.reason) == (kind, name, "ann", "audit")

        assert await engine.release(kind, name, by="bob")
        assert not await engine.release(kind, name)
        assert [await one.result("20s") for one in (run, later)] == ["firstsecond"] * 2
        assert sorted(DONE) == ["first", "first", "second", "second"]
        assert await engine.holds() == []


@pytest.mark.req("K39", "G18")
async def test_a_held_graph_waits(engines: Engines) -> None:
    body = chart([START, a("Z", "end", output={"ok": True})], "S>Z")
    async with engines.new(body) as engine:
        await engine.hold("workflow", "chart")
        run, test = await engine.start("chart", {}), await engine.start_graph(body, {}, test=True)

        assert (await run.why()).code == (await test.why()).code == "held"
        await engine.release("workflow", "chart")
        assert [await one.result("20s") for one in (run, test)] == [{"ok": True}] * 2


@pytest.mark.req("K39", "T1")
async def test_a_hold_counts_in_its_workspace_only(engines: Engines) -> None:
    async with engines.new(waits) as engine, engines.new(worker=False, workspace="acme") as other:
        await other.hold("queue", "default")
        run = await engine.start(waits, 1)

        await suspended(run)
        assert await engine.holds() == []
        assert len(await other.holds()) == 1
        await other.release("queue", "default")


@pytest.mark.req("K39")
async def test_what_cannot_be_held_is_refused(memory_engines: Engines) -> None:
    async with memory_engines.client() as engine:
        for kind, name in (("step", "x"), ("workspace", "x"), ("queue", "")):
            with pytest.raises(InvalidInput, match="cannot be held"):
                await engine.hold(kind, name)  # type: ignore[arg-type]


@pytest.mark.req("K39", "K19")
async def test_test_runs_take_no_slots_of_production(engines: Engines) -> None:
    async with engines.new(two_steps) as engine:
        await engine.set_limit("workflow", "two_steps", 1)
        run = await engine.start(two_steps, 1)
        await until(lambda: DONE == ["first"])

        start: Any = engine.start  # test runs of functions have no public option yet
        test = await start(two_steps, 2, test=True)
        await until(lambda: DONE == ["first", "first"])
        waiting = await engine.start(two_steps, 3)

        assert (await waiting.why()).code in ("limit", "queued")
        assert await waiting.status() is Status.PENDING
        gate("first").set()
        gate("second").set()
        for one in (run, test, waiting):
            assert await one.result("20s") == "firstsecond"
