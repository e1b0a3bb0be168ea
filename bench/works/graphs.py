"""W9, many short graphs at once in one process; W10, one parallel loop with many items, and one whose
nodes are executed by two other processes.

python -m bench.works.graphs PLACE          a worker for those; prints `ready`
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.measure import Sizes
from bench.works.figures import Figures, Runs
from bench.works.worker import serve, workers
from stepwell import Engine, GraphBuilder, RunHandle, node

KIB_A_MB = 1024
FAR = "far"  # the queue of the nodes that others execute
LEDGER = "BENCH_LEDGER"
WORKERS = 2


@node("bench:work")
async def work(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> dict[str, Any]:
    return {"ok": True}


@node("bench:far")
async def far(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> dict[str, Any]:
    """Leaves a line for each execution, so that one too many is seen."""
    _executed(helpers.key)
    return {"ok": True}


def _executed(key: str) -> None:
    with Path(os.environ[LEDGER]).open("a", encoding="ascii") as ledger:
        ledger.write(f"{key}\n")


# Of one graph as many at once as W1 has of one function; it would be 10 by default.
AT_ONCE = 50


def chain(nodes: int) -> GraphBuilder:
    """Start and end count as nodes."""
    g = GraphBuilder("chain", maxNodes=500, concurrency=AT_ONCE)
    last = g.start()
    for number in range(nodes - 2):
        last = last >> g.node("bench:work", f"w{number}", outputVariable=f"v{number}")
    last >> g.end("end", output={"last": f"{{{{ctx.v{nodes - 3}}}}}"})
    return g


def loop(items: int, *, width: int = 20, work: str = "bench:work", **data: Any) -> GraphBuilder:
    g = GraphBuilder("loop")
    start = g.start()
    each_data = {"times": items, "mode": "parallel", "concurrency": width, "collect": "ctx.v.ok"}
    with g.inside("loop", "each", outputVariable="each", **each_data) as each:
        g.node(work, "w", outputVariable="v", **data)
    start >> each >> g.end("end", output={"count": "{{size(ctx.each.results)}}"})
    return g


async def many_graphs(place: str, sizes: Sizes) -> list[Figures]:
    """Client and worker share the process; every result is awaited and looked at."""
    async with opened(place, sizes) as runs:
        await runs(sizes.warm_up)
        began = time.perf_counter()
        await runs(sizes.runs)
        seconds = time.perf_counter() - began
    rate = sizes.runs * sizes.steps / seconds
    return [Figures(values={"nodes_per_second": rate}, settings={"concurrency": AT_ONCE})]


@asynccontextmanager
async def opened(place: str, sizes: Sizes) -> AsyncIterator[Runs]:
    async with Engine(place, workflows=[chain(sizes.steps)], nodes=[work]) as engine:
        yield partial(_runs, engine, sizes)


async def _runs(engine: Engine, sizes: Sizes, count: int) -> None:
    room = asyncio.Semaphore(sizes.at_once)

    async def one() -> None:
        async with room:
            handle = await engine.start("chain", {})
            assert await handle.result() == {"last": {"ok": True}}

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())


async def loops(place: str, sizes: Sizes) -> list[Figures]:
    return [await _near(place, sizes), await _far(place, sizes)]


async def _near(place: str, sizes: Sizes) -> Figures:
    async with Engine(place, workflows=[loop(sizes.items)], nodes=[work]) as engine:
        before = _memory_mb()
        began = time.perf_counter()
        handle = await engine.start("loop", {})
        assert await handle.result() == {"count": sizes.items}
        figures = {"seconds": time.perf_counter() - began, "memory_growth_mb": _memory_mb() - before}
        figures["double_fires"] = await _twice(handle)
    return Figures(values=figures, settings={"items": sizes.items})


async def _far(place: str, sizes: Sizes) -> Figures:
    """The run's owner is here; its nodes are executed by two processes that can do nothing else."""
    graph = loop(sizes.parallel, width=100, work="bench:far", queue=FAR)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "ledger"
        env = {LEDGER: str(ledger)}
        async with Engine(place, workflows=[graph], nodes=[far]) as engine:
            with workers(place, WORKERS, env, "bench.works.graphs") as fleet:
                before = _memory_mb() + sum(worker.memory_mb for worker in fleet)
                began = time.perf_counter()
                handle = await engine.start("loop", {})
                assert await handle.result() == {"count": sizes.parallel}
                seconds = time.perf_counter() - began
                growth = _memory_mb() + sum(worker.memory_mb for worker in fleet) - before
            twice = await _twice(handle)
        executed = Counter(ledger.read_text(encoding="ascii").splitlines())
    assert len(executed) == sizes.parallel
    figures = {
        "seconds": seconds,
        "memory_growth_mb": growth,
        "double_fires": twice + sum(count - 1 for count in executed.values()),
    }
    return Figures(mode="remote", values=figures, settings={"items": sizes.parallel, "workers": WORKERS})


async def _twice(run: RunHandle[Any]) -> int:
    """Results that the log has more than once."""
    settled = Counter(
        [row.path async for row in run.log() if row.kind in ("step_completed", "node_completed")]
    )
    return sum(count - 1 for count in settled.values())


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_A_MB


if __name__ == "__main__":
    asyncio.run(serve(Engine(sys.argv[1], nodes=[far], queues=[FAR])))
