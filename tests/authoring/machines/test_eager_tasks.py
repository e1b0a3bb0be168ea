"""Eager tasks (Python 3.12) begin where they are made; the branches of a body are told apart all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Machine, step, transition
from tests.engines import Engines, all_events, suspended

EAGER: Any = getattr(asyncio, "eager_task_factory", None)
pytestmark = pytest.mark.skipif(EAGER is None, reason="asyncio.eager_task_factory is new in Python 3.12")


@step
async def doubled(number: int) -> int:
    return number * 2


class Eager(Machine[list[int]]):
    @transition("start", "end")
    async def go(self, ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_one(ctx, number)) for number in (1, 2)]
        more = await asyncio.gather(_one(ctx, 3), _one(ctx, 4))
        last = await ctx.step(doubled, await ctx.signal("last", int))
        self.state = [*(task.result() for task in tasks), *more, last]


async def _one(ctx: Context, number: int) -> int:
    return await ctx.step(doubled, number)


@pytest.mark.req("M9")
async def test_eager_branches_have_places_of_their_own(replayed_engines: Engines) -> None:
    asyncio.get_running_loop().set_task_factory(EAGER)
    async with replayed_engines.new(Eager) as engine:
        run = await engine.start(Eager, None)
        await suspended(run)
        await run.signal("last", 5)

        assert await run.result(15) == [2, 4, 6, 8, 10]
        done = [event.path for event in await all_events(run) if event.kind == "step_completed"]
        assert sorted(done) == ["0/go@1/doubled#1", *(f"0/go@1~{n}/doubled#1" for n in (1, 2, 3, 4))]
