"""Rates of nodes: how many a second the engine executes, beside what they use without an engine, in turns."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from stepwell import Engine, Settings

BAR = 0.5  # of the bare rate
RUNS, ITEMS, AT_ONCE = 16, 40, 10  # runs at once, nodes of each, and how many of those at once
SETTINGS = Settings(lease_seconds=6.0, heartbeat_seconds=0.5, poll_seconds=0.5)


class Rates(NamedTuple):
    bare: float  # calls a second
    engine: float
    ratio: float  # the median of those of the turns

    @property
    def text(self) -> str:
        return (
            f"{self.engine:,.0f} nodes/s beside {self.bare:,.0f} bare calls/s: {self.ratio:.2f} (bar {BAR})"
        )


def loop_graph(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """A loop of one node of this type."""
    around = {"items": "ctx.input.items", "mode": "parallel", "concurrency": AT_ONCE}
    return {
        "name": f"{kind}-loop",
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "each", "type": "loop", "data": around},
            {"id": "node", "type": kind, "parentId": "each", "data": data},
            {"id": "end", "type": "end"},
        ],
        "edges": [{"source": "start", "target": "each"}, {"source": "each", "target": "end"}],
    }


async def in_turns(
    call: Callable[[int], Awaitable[object]],
    graph: dict[str, Any],
    engine: Engine,
    *,
    turns: int,
    items: int = ITEMS,
) -> Rates:
    """Measure `call` and the nodes of the graph in turns: whatever else the machine does meets both."""
    bare, nodes = [], []
    for turn in range(turns + 1):  # the first one warms up
        rates = [await _bare(call, items), await _nodes(engine, graph, items)]
        if turn:
            bare.append(rates[0])
            nodes.append(rates[1])
    ratios = [one / other for one, other in zip(nodes, bare, strict=True)]
    return Rates(statistics.median(bare), statistics.median(nodes), statistics.median(ratios))


async def _bare(call: Callable[[int], Awaitable[object]], items: int) -> float:
    left = iter(list(range(items)) * RUNS)

    async def caller() -> None:
        for item in left:
            await call(item)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(RUNS * AT_ONCE):
            group.create_task(caller())
    return RUNS * items / (time.perf_counter() - began)


async def _nodes(engine: Engine, graph: dict[str, Any], items: int) -> float:
    began = time.perf_counter()
    runs = [await engine.start_graph(graph, {"items": list(range(items))}) for _ in range(RUNS)]
    for run in runs:
        await run.result(120)
    return RUNS * items / (time.perf_counter() - began)
