"""W11, many short machines at once in one process: every transition is one commit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from bench.measure import Sizes
from bench.works.figures import Figures, Runs
from stepwell import Context, Engine, Machine, transition


@dataclass
class Count:
    done: int = 0
    wanted: int = 0


class Counter(Machine[Count]):
    """Goes round one place until it has made `wanted` transitions."""

    @transition("start", "turn")
    async def begin(self, ctx: Context, wanted: int) -> None:
        self.state = Count(done=1, wanted=wanted)

    @transition("turn", "turn", when=lambda state: state.done < state.wanted - 1)
    async def go_round(self, ctx: Context) -> None:
        self.state.done += 1

    @transition("turn", "end")
    async def finish(self, ctx: Context) -> None:
        self.state.done += 1


async def transitions(place: str, sizes: Sizes) -> list[Figures]:
    """Client and worker share the process; every result is awaited and looked at."""
    async with opened(place, sizes) as runs:
        await runs(sizes.warm_up)
        began = time.perf_counter()
        await runs(sizes.runs)
        seconds = time.perf_counter() - began
    rate = sizes.runs * sizes.steps / seconds
    return [Figures(values={"transitions_per_second": rate}, settings={"settings": "default"})]


@asynccontextmanager
async def opened(place: str, sizes: Sizes) -> AsyncIterator[Runs]:
    async with Engine(place, workflows=[Counter]) as engine:
        yield partial(_runs, engine, sizes)


async def _runs(engine: Engine, sizes: Sizes, count: int) -> None:
    room = asyncio.Semaphore(sizes.at_once)

    async def one() -> None:
        async with room:
            handle = await engine.start(Counter, sizes.steps)
            assert (await handle.result()).done == sizes.steps

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())
