"""The finally of a try that is cancelled, on the kernel: stores, crashes, a retry by a person."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Retry, RunFailed, node
from stepwell.domain.status import Status
from stepwell.errors import RunCancelled
from tests.authoring.graphs.graphs import START, a, chart, traced
from tests.engines import Engines, crash, suspended, until


class Room:
    """Nodes that enter, and leave when the test lets them; one fails as long as it is told to."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.broken = True
        self.door = asyncio.Event()
        inside = asyncio.Event()
        door, seen = self.door, self.seen

        @node("enter", retry=Retry(1))
        async def enter(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> None:
            seen.append(helpers.node)
            if helpers.node == "A":
                inside.set()
                await door.wait()
            elif helpers.node == "B" and self.broken:
                await inside.wait()
                raise ValueError("broken")

        self.enter = enter


@pytest.mark.req("N16", "K13")
async def test_a_cancelled_run_cleans_up_after_a_crash_too(engines: Engines) -> None:
    room = Room()
    nodes = [a("T", "try") | {"data": {"finally": "K"}}, a("Q", "approval", "T")]
    nodes += [a("K", "enter", "T"), a("D", "delay", "T", ms=300), a("L", "enter", "T")]
    body = chart([START, *nodes, a("Z", "end")], "S>T T>Z K>D D>L")
    dying = engines.new(body, nodes=[room.enter])
    await dying.open()
    run = await dying.start("chart", {})
    await suspended(run)
    await run.cancel()
    await until(lambda: room.seen)
    await crash(dying)

    async with engines.new(body, nodes=[room.enter]) as engine:
        with pytest.raises(RunCancelled):
            await engine.handle(run.id).result(timeout=60)
        assert room.seen[-1] == "L"
        told = await traced(engine.handle(run.id))
        assert [told[path].status for path in ("T", "T/Q", "T/K", "T/L")] == [
            *("cancelled", "cancelled", "completed", "completed")
        ]


@pytest.mark.req("N16", "K9")
async def test_a_run_that_cleaned_up_and_failed_is_retried(engines: Engines) -> None:
    room = Room()
    nodes = [a("F", "fork"), a("T", "try") | {"data": {"finally": "K"}}, a("A", "enter", "T")]
    nodes += [a("K", "enter", "T"), a("B", "enter")]
    body = chart([START, *nodes, a("Z", "end")], "S>F F>T F>B T>Z B>Z")
    async with engines.new(body, nodes=[room.enter]) as engine:
        run = await engine.start("chart", {})
        with pytest.raises(RunFailed, match="broken"):
            await run.result(timeout=60)
        assert sorted(room.seen) == ["A", "B", "K"]
        assert room.seen[-1] == "K"

        room.broken = False
        room.door.set()
        room.seen.clear()
        await run.retry()
        assert await run.result(timeout=60) == {}
        assert sorted(room.seen) == ["A", "B", "K"]
        assert await run.status() is Status.COMPLETED
        assert (await traced(run))["T"].status == "completed"


@pytest.mark.req("N16", "K26")
async def test_a_fork_does_not_take_over_what_cleaned_up_after_what_it_undoes(
    memory_engines: Engines,
) -> None:
    room = Room()
    nodes = [a("F", "fork"), a("T", "try") | {"data": {"finally": "K"}}, a("A", "enter", "T")]
    nodes += [a("K", "enter", "T"), a("B", "enter")]
    body = chart([START, *nodes, a("Z", "end")], "S>F F>T F>B T>Z B>Z")
    async with memory_engines.new(body, nodes=[room.enter]) as engine:
        failed = await engine.start("chart", {})
        with pytest.raises(RunFailed):
            await failed.result(timeout=60)
        room.seen.clear()
        room.broken = False
        cancelled = await engine.start("chart", {})
        await until(lambda: "A" in room.seen)
        await cancelled.cancel()
        with pytest.raises(RunCancelled):
            await cancelled.result(timeout=60)

        room.door.set()
        for run in (failed, cancelled):
            last = len([row async for row in run.log()])
            room.seen.clear()
            edited = {"B": 1} if run is failed else None
            assert await (await engine.fork(run, at=last, outputs=edited)).result(timeout=60) == {}
            assert [name for name in room.seen if name != "B"] == ["A", "K"]
        room.seen.clear()
        assert await (await engine.rerun_from_node(failed, "B")).result(timeout=60) == {}
        assert sorted(room.seen) == ["A", "B", "K"]
