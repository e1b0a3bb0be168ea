"""Six workflows of at most ten runs each, in a workspace of fifty; and a process that runs them.

`python -m tests.faults.limited_work URL` is a worker; with a number it also starts that many runs.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from stepwell import Engine, Settings, node
from tests.authoring.graphs.graphs import START, a, chart

SETTINGS = Settings(lease_seconds=2.0, heartbeat_seconds=0.4, reap_seconds=0.4)
PER_WORKFLOW = 10
PER_WORKSPACE = 50
AT_ONCE = 30  # runs that a process starts: three processes want more than there are slots
NAMES = [f"limited-{number}" for number in range(6)]


@node("pause")
async def pause(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> str:
    await asyncio.sleep(0.03)
    return "rested"


def body(name: str) -> dict[str, Any]:
    nodes = [START, a("A", "pause"), a("B", "pause"), a("Z", "end", output={"done": True})]
    return chart(nodes, "S>A A>B B>Z", name=name)


def engine(url: str, **options: Any) -> Engine:
    graphs = [body(name) for name in NAMES]
    return Engine(url, workflows=graphs, nodes=[pause], settings=SETTINGS, **options)


async def main(url: str, starts: int) -> None:
    worker = engine(url)
    print("ready", flush=True)
    if not starts:
        await worker.serve()
    async with worker, asyncio.TaskGroup() as group:
        for number in range(AT_ONCE):
            group.create_task(start_in_turn(worker, range(number, starts, AT_ONCE)))
    print("done", flush=True)


async def start_in_turn(worker: Engine, numbers: range) -> None:
    for number in numbers:
        run = await worker.start(NAMES[number % len(NAMES)], {})
        assert await run.result(120) == {"done": True}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0))
