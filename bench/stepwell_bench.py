"""Stepwell in the bench, with its default settings: every run, step and end is on disk before it counts.

python -m bench.stepwell_bench W1 --store sqlite PLACE
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from bench.measure import Sizes, task
from bench.works import (
    fanning,
    footprint,
    graphs,
    latency,
    long_run,
    machines,
    sleeping,
    starting,
    throughput,
)
from bench.works.figures import Figures

Work = Callable[[str, Sizes], Awaitable[list[Figures]]]

WORKS: Mapping[str, Work] = MappingProxyType(
    {
        "W1": throughput.one_process,
        "W2": latency.direct_and_queued,
        "W3": starting.one_by_one_and_batch,
        "W4": fanning.parallel_steps,
        "W4c": fanning.child_runs,
        "W5": sleeping.naps,
        "W6": throughput.two_processes,
        "W7": long_run.flatness,
        "W7r": long_run.recovery,
        "W8": footprint.import_and_install,
        "W9": graphs.many_graphs,
        "W10": graphs.loops,
        "W11": machines.transitions,
    }
)


async def main() -> None:
    asked = task("stepwell", tuple(WORKS))
    for found in await WORKS[asked.work](asked.place, asked.sizes):
        asked.report(found.values, mode=found.mode, settings=found.settings)


if __name__ == "__main__":
    asyncio.run(main())
