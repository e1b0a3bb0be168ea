"""What workflow code does when its run is put aside, and when what a step gave back is on disk."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, step, workflow
from stepwell.store.base import Store
from tests.engines import Engines, kinds, parked, suspended, until

SAID: list[str] = []


@step
async def note(what: str) -> str:
    SAID.append(what)
    return what


@workflow(name="leaves")
async def leaves(ctx: Context) -> str:
    try:
        said = await ctx.signal("go", str)
    except Exception:
        SAID.append("an error")
        raise
    finally:
        SAID.append("left")
        await ctx.step(note, "cleaned up")
        SAID.append("behind the step")
    return str(said)


@pytest.mark.req("K36")
async def test_finally_runs_each_time_a_run_is_put_aside_and_its_steps_once(engines: Engines) -> None:
    """Each owner leaves the code where it waits: no error, and no ctx verb does anything then."""
    SAID.clear()
    async with engines.new(leaves) as engine:
        run = await engine.start(leaves)
        await suspended(run)
        await parked(run)
        assert SAID == ["left"]
        await run.signal("other")  # the run is claimed, its code replayed and left again
        await until(lambda: SAID == ["left", "left"])
        assert "step_completed" not in await kinds(run)
        await run.signal("go", "on")

        assert await run.result(30) == "on"
    assert SAID == ["left", "left", "left", "cleaned up", "behind the step"]


@pytest.mark.req("K2")
async def test_the_next_step_begins_when_the_result_before_it_is_on_disk(engines: Engines) -> None:
    """The code itself goes on at once: what it does between two steps may be done again after a crash."""
    seen: list[list[str]] = []
    opened: list[Any] = []

    @step
    async def look(run_id: str) -> None:
        store: Store = opened[0].store
        seen.append([row.kind for row in await store.read_log(run_id)])  # type: ignore[arg-type]

    @workflow(name="looks")
    async def looks(ctx: Context) -> None:
        for _ in range(3):
            await ctx.step(look, ctx.run_id)
        await asyncio.gather(ctx.step(look, ctx.run_id), ctx.sleep(0.01))

    async with engines.new(looks) as engine:
        opened.append(engine)
        await engine.run(looks, None)

    assert [read.count("step_completed") for read in seen] == [0, 1, 2, 3]
