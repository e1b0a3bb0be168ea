"""W5, many sleeping runs: how soon all are asleep, how late they wake, what they cost in memory."""

from __future__ import annotations

import asyncio
import random
import time

import msgspec

from bench.measure import Sizes, quantiles_ms
from bench.works.figures import Figures
from bench.works.flows import nap
from bench.works.worker import WorkerProcess, workers
from stepwell import Engine, Status

LOOK_SECONDS = 0.05
PATIENCE_SECONDS = 60.0


class MemoryGauge:
    """Looks at a worker's memory now and then and keeps the most it saw."""

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker
        self._before = worker.memory_mb
        self._most = self._before

    @property
    def growth_mb(self) -> float:
        return self._most - self._before

    def look(self) -> None:
        self._most = max(self._most, self._worker.memory_mb)


async def naps(place: str, sizes: Sizes) -> list[Figures]:
    """Wakes are spread at random over `spread` seconds; the first comes `lead` seconds after the start.

    The worker is a process of its own. Lateness: from the time that the code asked to be woken at until
    its next line runs; the way from `ctx.sleep` into the log is in it. If falling asleep takes longer than
    `lead`, both figures show it.
    """
    with workers(place) as (worker,):
        async with Engine(place, worker=False) as client:
            await client.start_many(nap, [0.0] * sizes.warm_up)
            await _none(client, Status.PENDING, Status.RUNNING, Status.SUSPENDED)
            gauge = MemoryGauge(worker)
            chance = random.Random(5)
            first = time.time() + sizes.lead
            began = time.perf_counter()
            dues = [first + chance.random() * sizes.spread for _ in range(sizes.sleepers)]
            await client.start_many(nap, dues)
            await _none(client, Status.PENDING, Status.RUNNING, gauge=gauge)
            asleep = time.perf_counter() - began
            await asyncio.sleep(max(0.0, first + sizes.spread - time.time()))
            gauge.look()
            await _none(client, Status.PENDING, Status.RUNNING, Status.SUSPENDED, gauge=gauge)
            rows = await client.runs(status=Status.COMPLETED, limit=sizes.sleepers)
    late = [msgspec.json.decode(row.output or b"", type=float) for row in rows]
    assert len(late) == sizes.sleepers
    assert min(late) > -0.001, f"woken {-min(late):.3f} s too early"
    figures = {"asleep_s": asleep, **quantiles_ms(late), "memory_growth_mb": gauge.growth_mb}
    return [Figures(values=figures, settings={"first wake after s": sizes.lead})]


async def _none(client: Engine, *statuses: Status, gauge: MemoryGauge | None = None) -> None:
    """Until no run has one of these statuses."""
    limit = time.monotonic() + PATIENCE_SECONDS
    while await client.runs(status=statuses, limit=1):
        assert time.monotonic() < limit, "waited in vain"
        if gauge is not None:
            gauge.look()
        await asyncio.sleep(LOOK_SECONDS)
