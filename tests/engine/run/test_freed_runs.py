"""What a worker has in memory for a run is freed when the run leaves it, not by the collector later."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from stepwell import Context, Machine, transition, workflow
from stepwell.engine.run.activation import Activation
from tests.engines import Engines, parked

RUNS = 5


@pytest.fixture
def others() -> Iterator[int]:
    """Activations that earlier tests left in this process; from here on the collector does not run."""
    gc.collect()
    gc.disable()
    try:
        yield in_memory()
    finally:
        gc.enable()


@workflow
async def stepping(ctx: Context) -> int:
    return await ctx.step(one) + await ctx.step(one)


async def one() -> int:
    return 1


@workflow
async def waiting(ctx: Context) -> int:
    return await ctx.signal("go", int)


class Going(Machine[int]):
    @transition("start", "end")
    async def go(self, ctx: Context) -> None:
        self.state = 1


def in_memory() -> int:
    return sum(isinstance(item, Activation) for item in gc.get_objects())


@pytest.mark.req("K41")
async def test_run_that_ended_is_freed_at_once(engines: Engines, others: int) -> None:
    async with engines.new(stepping, Going) as engine:
        for _ in range(RUNS):
            await (await engine.start(stepping)).result(60)
            await (await engine.start(Going)).result(60)
        left = in_memory() - others

    assert left <= 1  # the last may be on its way


@pytest.mark.req("K41")
async def test_run_that_parked_is_freed_at_once(engines: Engines, others: int) -> None:
    async with engines.new(waiting) as engine:
        runs = [await engine.start(waiting) for _ in range(RUNS)]
        for run in runs:
            await parked(run)
        left = in_memory() - others

    assert left <= 1
