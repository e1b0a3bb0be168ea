"""W2, from start to result of a one-step run: in this process, and through the queue to another."""

from __future__ import annotations

import time

from bench.measure import Sizes, quantiles_ms
from bench.works.figures import Figures
from bench.works.flows import FLOWS, steps_in_turn
from bench.works.worker import workers
from stepwell import Engine


async def direct_and_queued(place: str, sizes: Sizes) -> list[Figures]:
    async with Engine(place, workflows=FLOWS) as engine:
        direct = await _latencies(engine, sizes)
    # The client has no worker and no result of its own: both ways are hints of the store.
    with workers(place):
        async with Engine(place, worker=False) as client:
            queued = await _latencies(client, sizes)
    return [
        Figures(mode="direct", values=quantiles_ms(direct)),
        Figures(mode="queue", values=quantiles_ms(queued), settings={"worker": "another process"}),
    ]


async def _latencies(engine: Engine, sizes: Sizes) -> list[float]:
    taken: list[float] = []
    for _ in range(sizes.warm_up + sizes.latencies):
        began = time.perf_counter()
        handle = await engine.start(steps_in_turn, 1)
        assert await handle.result() == {"n": 1}
        taken.append(time.perf_counter() - began)
    return taken[sizes.warm_up :]
