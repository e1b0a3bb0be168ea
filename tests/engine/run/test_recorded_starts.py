"""Starts of nodes, and pauses of runs, are in the log when they happen, without commits of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from stepwell import Context, Engine, RunEvent, RunHandle, Status, node, workflow
from stepwell.domain.commit import Commit, Committed
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import Engines, crash, suspended


async def events(run: RunHandle[Any]) -> list[RunEvent]:
    return [event async for event in run.events()]


async def types(run: RunHandle[Any], path: str) -> list[str]:
    return [event.type for event in await events(run) if event.path == path]


def held() -> tuple[Any, asyncio.Event, asyncio.Event]:
    """A node that says when it runs, and goes on when it may."""
    runs, may = asyncio.Event(), asyncio.Event()

    @node("test:held")
    async def work(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> str:
        runs.set()
        await may.wait()
        return "done"

    return work, runs, may


CHAIN = chart(
    [START, a("A", "test:held"), a("T", "transform", expression="1 + 1"), a("Z", "end", output={})],
    "S>A A>T T>Z",
    name="chain",
)


@pytest.mark.req("K38", "G12")
async def test_a_node_is_in_the_log_before_its_work_begins(engines: Engines) -> None:
    work, runs, may = held()
    async with engines.new(CHAIN, nodes=[work]) as engine:
        run = await engine.start("chain", {})
        await runs.wait()
        assert await types(run, "0/A") == ["node_started"]
        may.set()
        await run.result()
        told = await events(run)
        for path in ("0/S", "0/A", "0/T", "0/Z"):
            assert [e.kind for e in told if e.path == path and e.kind == "node_started"] == ["node_started"]
        assert (await types(run, "0/A"))[-1] == "node_completed"


@pytest.mark.req("K38")
async def test_a_follower_sees_that_a_node_began_before_it_ends(engines: Engines) -> None:
    work, _, may = held()
    async with engines.new(CHAIN, nodes=[work]) as engine:
        run = await engine.start("chain", {})
        async for event in run.events(follow=True):
            if event.type == "node_started" and event.path == "0/A":
                may.set()  # it could not end before
                break
        await run.result()


class Counted:
    """Counts what an engine commits."""

    def __init__(self, engine: Engine) -> None:
        self.commits: list[Commit] = []
        store: Any = engine.store
        written = store.commit

        async def commit(batch: Sequence[Commit]) -> Sequence[Committed]:
            self.commits.extend(batch)
            result: Sequence[Committed] = await written(batch)
            return result

        store.commit = commit


@pytest.mark.req("K38")
async def test_a_start_has_no_commit_of_its_own(memory_engines: Engines) -> None:
    work, _, may = held()
    may.set()
    async with memory_engines.new(CHAIN, nodes=[work]) as engine:
        counted = Counted(engine)
        run = await engine.start("chain", {})
        await run.result()
        alone = [c for c in counted.commits if {e.kind for e in c.events} <= {"node_started", "claimed"}]
        assert counted.commits
        assert alone == []


@workflow
async def waits(ctx: Context, x: int) -> int:
    await ctx.signal("first", int)
    return await ctx.signal("second", int)


def pauses(told: list[RunEvent]) -> list[str]:
    return [e.type for e in told if e.type in ("workflow_paused", "workflow_resumed")]


@pytest.mark.req("K38")
async def test_a_run_that_waits_is_paused_and_then_resumed(engines: Engines) -> None:
    async with engines.new(waits) as engine:
        run = await engine.start(waits, 1)
        await suspended(run)
        told = await events(run)
        assert pauses(told) == ["workflow_paused"]
        assert told[-1].kind == "suspended"
        state = await run.state()
        assert state.status is Status.SUSPENDED
        assert state.suspended_at == pytest.approx(told[-1].at.timestamp(), abs=1e-3)
        await run.signal("first", 1)
        await run.waiting_for("second")
        await suspended(run)
        await run.signal("second", 2)
        assert await run.result() == 2
        told = await events(run)
        assert pauses(told) == ["workflow_paused", "workflow_resumed"] * 2
        resumed = [told[at - 1].kind for at, e in enumerate(told) if e.type == "workflow_resumed"]
        assert resumed == ["claimed", "claimed"]


@pytest.mark.req("K38")
async def test_a_node_has_one_start_however_often_the_run_is_replayed(engines: Engines) -> None:
    work, runs, may = held()
    first = engines.new(CHAIN, nodes=[work])
    await first.open()
    run = await first.start("chain", {})
    await runs.wait()
    await crash(first)
    may.set()
    async with engines.new(CHAIN, nodes=[work]) as second:
        again: RunHandle[Any] = second.handle(run.id)
        await again.result()
        kinds = [(e.kind, e.path) for e in await events(again) if e.kind == "node_started"]
        assert len(kinds) == len(set(kinds)) == 4
