"""W1, many short runs at once in one process; W6, the same runs shared by two worker processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from bench.measure import Sizes
from bench.works.figures import Figures, Runs
from bench.works.flows import FLOWS, steps_in_turn
from bench.works.worker import workers
from stepwell import Engine, Status

FLEET_DELAY = 0.5  # seconds: all runs are written before the first is due
LOOK_SECONDS = 0.02
PATIENCE_SECONDS = 60.0


async def one_process(place: str, sizes: Sizes) -> list[Figures]:
    """Client and worker share the process; every result is awaited and looked at."""
    async with opened(place, sizes) as runs:
        await runs(sizes.warm_up)
        began = time.perf_counter()
        await runs(sizes.runs)
        seconds = time.perf_counter() - began
    rate = sizes.runs * sizes.steps / seconds
    return [Figures(values={"steps_per_second": rate}, settings={"settings": "default"})]


@asynccontextmanager
async def opened(place: str, sizes: Sizes) -> AsyncIterator[Runs]:
    async with Engine(place, workflows=FLOWS) as engine:
        yield partial(_runs, engine, sizes)


async def _runs(engine: Engine, sizes: Sizes, count: int) -> None:
    room = asyncio.Semaphore(sizes.at_once)

    async def one() -> None:
        async with room:
            handle = await engine.start(steps_in_turn, sizes.steps)
            assert await handle.result() == {"n": sizes.steps}

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())


async def two_processes(place: str, sizes: Sizes) -> list[Figures]:
    """Rates by the store's clock, from the first claim to the last end; the client only looks at times."""
    rates = {}
    async with Engine(place, worker=False) as client:
        for count in (1, 2):
            with workers(place, count):
                rates[count] = await _fleet_rate(client, sizes)
    figures = {
        "steps_per_second": rates[2],
        "steps_per_second_alone": rates[1],
        "scaling": rates[2] / rates[1],
    }
    return [Figures(values=figures, settings={"runs": sizes.fleet_runs})]


async def _fleet_rate(client: Engine, sizes: Sizes) -> float:
    await client.start_many(steps_in_turn, [sizes.steps] * sizes.warm_up)
    await _all_ended(client)
    handles = await client.start_many(steps_in_turn, [sizes.steps] * sizes.fleet_runs, delay=FLEET_DELAY)
    await _all_ended(client)
    rows = await client.runs(status=Status.COMPLETED, limit=len(handles))
    assert {row.id for row in rows} == {handle.id for handle in handles}
    began = min(row.started_at for row in rows if row.started_at is not None)
    ended = max(row.ended_at for row in rows if row.ended_at is not None)
    return sizes.fleet_runs * sizes.steps / (ended - began)


async def _all_ended(client: Engine) -> None:
    open_ones = [Status.PENDING, Status.RUNNING, Status.SUSPENDED]
    limit = time.monotonic() + PATIENCE_SECONDS
    while await client.runs(status=open_ones, limit=1):
        assert time.monotonic() < limit, "waited in vain"
        await asyncio.sleep(LOOK_SECONDS)
