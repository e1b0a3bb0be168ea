"""W3, how fast runs are accepted when nobody works on them: one by one, and many in a call."""

from __future__ import annotations

import time

from bench.measure import Sizes
from bench.works.figures import Figures
from bench.works.flows import steps_in_turn
from stepwell import Engine

BATCH = 1_000  # runs in one call of start_many


async def one_by_one_and_batch(place: str, sizes: Sizes) -> list[Figures]:
    async with Engine(place, worker=False) as engine:
        for _ in range(sizes.warm_up):
            await engine.start(steps_in_turn, 1)
        began = time.perf_counter()
        for _ in range(sizes.starts):
            await engine.start(steps_in_turn, 1)
        single = sizes.starts / (time.perf_counter() - began)

        batch = min(BATCH, sizes.starts)
        began = time.perf_counter()
        for _ in range(sizes.batches):
            handles = await engine.start_many(steps_in_turn, [1] * batch)
            assert len(handles) == batch
        many = sizes.batches * batch / (time.perf_counter() - began)
    return [
        Figures(mode="one by one", values={"runs_per_second": single}),
        Figures(mode="batch", values={"runs_per_second": many}, settings={"runs in a call": batch}),
    ]
