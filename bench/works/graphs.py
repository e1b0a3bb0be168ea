"""W9, many short graphs at once in one process; W10, one parallel loop with many items."""

from __future__ import annotations

import asyncio
import resource
import time
from typing import Any

from bench.measure import Sizes
from bench.works.figures import Figures
from stepwell import Engine, GraphBuilder, node

KIB_A_MB = 1024


@node("bench:work")
async def work(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> dict[str, Any]:
    return {"ok": True}


def chain(nodes: int) -> GraphBuilder:
    """Start and end count as nodes."""
    g = GraphBuilder("chain", maxNodes=500)
    last = g.start()
    for number in range(nodes - 2):
        last = last >> g.node("bench:work", f"w{number}", outputVariable=f"v{number}")
    last >> g.end("end", output={"last": f"{{{{ctx.v{nodes - 3}}}}}"})
    return g


def loop(items: int) -> GraphBuilder:
    g = GraphBuilder("loop")
    start = g.start()
    data = {"times": items, "mode": "parallel", "concurrency": 20, "collect": "ctx.v.ok"}
    with g.inside("loop", "each", outputVariable="each", **data) as each:
        g.node("bench:work", "w", outputVariable="v")
    start >> each >> g.end("end", output={"count": "{{size(ctx.each.results)}}"})
    return g


async def many_graphs(place: str, sizes: Sizes) -> list[Figures]:
    """Client and worker share the process; every result is awaited and looked at."""
    async with Engine(place, workflows=[chain(sizes.steps)], nodes=[work]) as engine:
        await _runs(engine, sizes, sizes.warm_up)
        began = time.perf_counter()
        await _runs(engine, sizes, sizes.runs)
        seconds = time.perf_counter() - began
    rate = sizes.runs * sizes.steps / seconds
    return [Figures(values={"nodes_per_second": rate}, settings={"settings": "default"})]


async def _runs(engine: Engine, sizes: Sizes, count: int) -> None:
    room = asyncio.Semaphore(sizes.at_once)

    async def one() -> None:
        async with room:
            handle = await engine.start("chain", {})
            assert await handle.result() == {"last": {"ok": True}}

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())


async def parallel_loop(place: str, sizes: Sizes) -> list[Figures]:
    async with Engine(place, workflows=[loop(sizes.items)], nodes=[work]) as engine:
        before = _memory_mb()
        began = time.perf_counter()
        handle = await engine.start("loop", {})
        assert await handle.result() == {"count": sizes.items}
        figures = {"seconds": time.perf_counter() - began, "memory_growth_mb": _memory_mb() - before}
    return [Figures(values=figures, settings={"items": sizes.items})]


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_A_MB
