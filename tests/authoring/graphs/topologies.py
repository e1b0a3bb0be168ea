"""Twelve shapes of graphs whose nodes write into a ledger, and a process that runs them.

`python -m tests.authoring.graphs.topologies URL QUEUE` is a worker; each execution of a node is a
line of the ledger, so that a test can count them from outside.
"""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import pairwise
from typing import Any

from stepwell import Engine, NodeError, Settings, node
from tests.authoring.graphs.graphs import START, a, chart

# Short only where a process is killed: elsewhere a slow machine must not lose a lease and do a node twice.
SETTINGS = Settings(
    lease_seconds=float(os.environ.get("GRAPH_LEASE", "60")), heartbeat_seconds=0.4, reap_seconds=0.4
)
LEDGER = os.environ.get("GRAPH_LEDGER", "")


@node("work")
async def work(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> str:
    line = f"{helpers.key} {helpers.attempt}\n".encode()
    ledger = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(ledger, line)
    finally:
        os.close(ledger)
    if config.get("ms"):
        await asyncio.sleep(config["ms"] / 1000)
    if config.get("fails"):
        raise NodeError("E_WORK", "as told", config=True)
    return str(helpers.node)


def w(id: str, **data: Any) -> dict[str, Any]:
    return a(id, "work", outputVariable=id.lower(), **data)


Z = a("Z", "end", output={"done": True})


def _chain(count: int) -> tuple[list[dict[str, Any]], str]:
    names = [f"N{i}" for i in range(count)]
    path = ["S", *names, "Z"]
    return [w(name) for name in names], " ".join(f"{x}>{y}" for x, y in pairwise(path))


def _shapes() -> dict[str, tuple[list[dict[str, Any]], str]]:
    merge = a("J", "merge")
    either = a("J", "merge", mode="any")
    return {
        "linear": _chain(3),
        "deep-chain": _chain(30),
        "fan-out": ([w("A"), w("B"), w("C")], "S>A S>B S>C A>Z B>Z C>Z"),
        "fan-in": ([w("A"), w("B"), w("C"), merge, w("D")], "S>A S>B S>C A>J B>J C>J J>D D>Z"),
        "diamond-and": ([a("F", "fork"), w("A"), w("B"), merge, w("D")], "S>F F>A F>B A>J B>J J>D D>Z"),
        "diamond-or": (
            [a("F", "fork"), w("A"), w("B", ms=40), either, w("D")],
            "S>F F>A F>B A>J B>J J>D D>Z",
        ),
        "error-path": ([w("A", fails=True), w("H")], "S>A A>Z A-error>H H>Z"),
        "conditional": (
            [a("C", "condition", branches=[{"id": "yes", "when": "ctx.input.n > 0"}]), w("A"), w("B")],
            "S>C C-yes>A C-else>B A>Z B>Z",
        ),
        "delay": ([w("A"), a("W", "delay", ms=30), w("B")], "S>A A>W W>B B>Z"),
        "multi-level-join": (
            [w("A"), w("B"), w("C"), w("D"), a("J1", "merge"), a("J2", "merge"), merge, w("E")],
            "S>A S>B S>C S>D A>J1 B>J1 C>J2 D>J2 J1>J J2>J J>E E>Z",
        ),
        "loop": ([a("L", "loop", times=5, mode="parallel"), a("A", "work", "L"), w("B")], "S>L L>B B>Z"),
        "try": ([a("T", "try"), a("A", "work", "T", fails=True), w("H")], "S>T T>Z T-catch>H H>Z"),
    }


GRAPHS = {
    name: chart([START, *nodes, Z], edges, name=name, concurrency=1000)
    for name, (nodes, edges) in _shapes().items()
}


async def main(url: str, queue: str) -> None:
    engine = Engine(url, workflows=GRAPHS.values(), nodes=[work], settings=SETTINGS, queues=[queue])
    print("ready", flush=True)
    await engine.serve()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
