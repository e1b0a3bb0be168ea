"""W4, one parent with many parallel steps; W4c, one parent with many child runs."""

from __future__ import annotations

import time

from bench.measure import Sizes
from bench.works.figures import Figures
from bench.works.flows import FLOWS, children_at_once, steps_at_once, steps_mapped
from stepwell import Engine, Workflow


async def parallel_steps(place: str, sizes: Sizes) -> list[Figures]:
    return [
        await _fan(place, sizes, steps_at_once, "gather"),
        await _fan(place, sizes, steps_mapped, "map"),
    ]


async def child_runs(place: str, sizes: Sizes) -> list[Figures]:
    return [await _fan(place, sizes, children_at_once, "")]


async def _fan(place: str, sizes: Sizes, workflow: Workflow[int, int], mode: str) -> Figures:
    async with Engine(place, workflows=FLOWS) as engine:
        assert await engine.run(workflow, sizes.warm_up) == sizes.warm_up
        began = time.perf_counter()
        assert await engine.run(workflow, sizes.parallel) == sizes.parallel
        return Figures(mode=mode, values={"seconds": time.perf_counter() - began})
