"""Six workflows of at most ten runs each, in a workspace of fifty; and a process that runs them.

`python -m tests.faults.limited_work URL` is a worker.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from stepwell import Engine, Settings, node
from tests.authoring.graphs.graphs import START, a, chart

SETTINGS = Settings(lease_seconds=2.0, heartbeat_seconds=0.4, sweep_seconds=0.4)
PER_WORKFLOW = 10
PER_WORKSPACE = 50
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


async def main(url: str) -> None:
    worker = engine(url)
    print("ready", flush=True)
    await worker.serve()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
