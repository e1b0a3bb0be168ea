"""Edited graphs: a run goes on from the graph it began with; what nobody can serve can still end."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from stepwell import Context, Engine, RunHandle, node, step, workflow
from stepwell.authoring.graphs.workflow import graph
from stepwell.domain.status import Status
from stepwell.errors import RunCancelled, RunTimedOut
from tests.authoring.graphs.graphs import START, a, chart, traced
from tests.engines import SETTINGS, Engines, kinds, reaches, suspended, ticket, until

SOON = replace(SETTINGS, reap_seconds=0.05)


@node("echo")
async def echo(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> Any:
    return "echoed"


@workflow
async def other(ctx: Context, x: Any) -> None:
    pass


def asking(answer: int = 1, **settings: Any) -> dict[str, Any]:
    end = a("Z", "end", output={"answer": answer})
    return chart([START, a("H", "approval"), end], "S>H H-approved>Z", name="asking", **settings)


def echoing(**settings: Any) -> dict[str, Any]:
    nodes = [
        START,
        a("H", "approval"),
        a("E", "echo", outputVariable="e"),
        a("Z", "end", output={"e": "{{ctx.e}}"}),
    ]
    return chart(nodes, "S>H H-approved>E E>Z", name="echoing", **settings)


def moved(body: dict[str, Any]) -> dict[str, Any]:
    """The same graph, drawn in another way."""
    body = copy.deepcopy(body)
    for x, drawn in enumerate(body["nodes"]):
        drawn["position"] = {"x": 100 * x + 7, "y": -3}
        drawn["selected"] = True
        drawn["data"]["title"] = f"node {x}"
    for edge in body["edges"]:
        edge["label"] = "then"
        edge["animated"] = True
    return body


async def left_waiting(engine: Engine, body: dict[str, Any], **options: Any) -> str:
    async with engine:
        run = await engine.start(body["name"], {}, **options)
        await suspended(run)
        return run.id


@pytest.mark.req("K37")
def test_where_nodes_lie_is_no_part_of_a_version() -> None:
    assert graph(asking()).definition.version == graph(moved(asking())).definition.version
    assert graph(asking()).definition.version != graph(asking(2)).definition.version


@pytest.mark.req("K37", "G18")
@pytest.mark.parametrize("edited", [moved(asking()), asking(2)], ids=["moved", "other"])
async def test_a_run_goes_on_from_the_graph_it_began_with(engines: Engines, edited: dict[str, Any]) -> None:
    run_id = await left_waiting(engines.new(asking()), asking())

    async with engines.new(edited) as engine:
        run = engine.handle(run_id)
        await run.decide("approved")

        assert await run.result("40s") == {"answer": 1}
        assert (await traced(run))["H"].status == "completed"


@pytest.mark.req("K37")
async def test_a_run_of_a_version_that_nobody_computes_any_more_goes_on(engines: Engines) -> None:
    """Versions were hashes of the whole JSON once, with the positions."""
    run_id = await left_waiting(engines.new(graph(asking(), version="0123456789ab")), asking())

    async with engines.new(asking()) as engine:
        await engine.handle(run_id).decide("approved")

        assert await engine.handle(run_id).result("40s") == {"answer": 1}


@pytest.mark.req("K37")
async def test_a_worker_learns_of_graphs_that_come_after_it(engines: Engines) -> None:
    async with engines.new(other, settings=SOON) as worker, engines.new(asking(), worker=False) as client:
        run = await client.start("asking", {})
        await suspended(run)
        await run.decide("approved")

        assert await run.result("40s") == {"answer": 1}
        assert worker.worker is not None


@pytest.mark.req("K37")
async def test_a_wait_of_an_edited_graph_still_expires(engines: Engines) -> None:
    run_id = await left_waiting(engines.new(asking(suspendTtlMs=300)), asking())

    async with engines.new(asking(2)) as engine:
        run = engine.handle(run_id)
        await reaches(run, Status.FAILED)

        assert "the wait timed out" in (await run.why()).text


@pytest.mark.req("K37")
async def test_only_a_worker_that_has_the_node_types_takes_the_run(engines: Engines) -> None:
    run_id = await left_waiting(engines.new(echoing(), nodes=[echo]), echoing())

    async with engines.new(other, settings=SOON) as without:
        run = without.handle(run_id)
        await run.decide("approved")
        assert "no worker has echoing@" in (await run.why()).text
        async with engines.new(other, nodes=[echo], settings=SOON) as able:
            assert await able.handle(run_id).result("40s") == {"e": "echoed"}


@pytest.mark.req("K37")
async def test_a_run_that_brings_its_graph_goes_to_a_worker_that_has_the_node_types(engines: Engines) -> None:
    async with engines.new(other, settings=SOON), engines.new(nodes=[echo], worker=False) as client:
        run = await client.start_graph(echoing(), {})

        async def passed_on() -> bool:
            found = await ticket(run)
            return found is not None and found.needs.startswith("graph/1:echoing@")

        await until(passed_on)
        async with engines.new(other, nodes=[echo], settings=SOON):
            await suspended(run)
            await run.decide("approved")

            assert await run.result("40s") == {"e": "echoed"}
            assert (await kinds(run)).count("claimed") <= 3


@pytest.mark.req("K37")
async def test_a_graph_that_nobody_can_serve_can_be_cancelled(engines: Engines) -> None:
    run_id = await left_waiting(engines.new(echoing(), nodes=[echo]), echoing())

    async with engines.new(other, settings=SOON) as engine:
        run = engine.handle(run_id)
        assert await run.cancel("enough")

        with pytest.raises(RunCancelled, match="enough"):
            await run.result("40s")
        assert await ticket(run) is None


@pytest.mark.req("K37")
async def test_a_graph_that_nobody_can_serve_expires_and_can_be_retried(engines: Engines) -> None:
    body = echoing(suspendTtlMs=300)
    run_id = await left_waiting(engines.new(body, nodes=[echo]), body)

    async with engines.new(other, settings=SOON) as engine:
        run = engine.handle(run_id)
        with pytest.raises(RunTimedOut, match="no worker had graph echoing"):
            await run.result("40s")

    async with engines.new(other, nodes=[echo], settings=SOON) as engine:
        run = engine.handle(run_id)
        await run.retry()
        await reaches(run, Status.FAILED)
        assert "the wait timed out" in (await run.why()).text


@workflow
async def gone(ctx: Context, x: Any) -> None:
    await ctx.signal("never")


@pytest.mark.req("K37")
async def test_a_function_that_nobody_has_can_be_cancelled(engines: Engines) -> None:
    async with engines.new(gone) as engine:
        run = await engine.start(gone, 1)
        await suspended(run)

    async with engines.new(other, settings=SOON) as engine:
        assert await engine.handle(run.id).cancel("enough")

        with pytest.raises(RunCancelled, match="enough"):
            await engine.handle(run.id).result("40s")


def undoing() -> Any:
    @step
    async def refund(paid: Any) -> None:
        pass

    @step(compensate=refund)
    async def charge(x: Any) -> Any:
        return x

    @workflow(name="undoing")
    async def undoing(ctx: Context, x: Any) -> None:
        await ctx.step(charge, x)
        await ctx.signal("never")

    return undoing


@pytest.mark.req("K37")
async def test_what_a_run_did_is_left_to_a_worker_that_can_undo_it(engines: Engines) -> None:
    """Its worker may only be restarting: the cancel waits for it."""
    there = undoing()
    async with engines.new(there) as engine:
        run: RunHandle[Any] = await engine.start(there, 1)
        await suspended(run)
    find: Callable[[str], Any] = lambda name: None  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stepwell.engine.worker.rerouter.find", find)
        async with engines.new(other, settings=SOON) as engine:
            assert engine.worker is not None
            await engine.handle(run.id).cancel("enough")
            assert not await engine.worker._rerouter.look()
            found = await ticket(engine.handle(run.id))
            assert found is not None
            assert found.needs == "undoing@1"

    async with engines.new(there, settings=SOON) as engine:
        with pytest.raises(RunCancelled, match="enough"):
            await engine.handle(run.id).result("40s")
        assert "compensation_completed" in await kinds(engine.handle(run.id))
