"""LangGraph: a chain of nodes with its own checkpointers, `durability="sync"` so that every node is kept.

It has no queue and no worker: a run is a call, so there is no W3.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from bench.measure import Task, quantiles_ms, rates, task

POOL_MIN, POOL_MAX = 8, 20
DURABILITY = "sync"

finished: list[float] = []


class State(TypedDict):
    i: int
    ok: bool


FIRST: State = {"i": 0, "ok": False}


async def node(state: State) -> State:
    return {"i": state["i"] + 1, "ok": True}


async def timed_node(state: State) -> State:
    finished.append(time.perf_counter())
    return {"i": state["i"] + 1, "ok": True}


def chain(length: int, saver: Any) -> Any:
    graph = StateGraph(State)
    before: str = START
    for number in range(length):
        name = f"node {number}"
        graph.add_node(name, node)
        graph.add_edge(before, name)
        before = name
    graph.add_edge(before, END)
    return graph.compile(checkpointer=saver)


def loop(turns: int, saver: Any) -> Any:
    graph = StateGraph(State)
    graph.add_node("turn", timed_node)
    graph.add_edge(START, "turn")
    graph.add_conditional_edges("turn", lambda state: END if state["i"] >= turns else "turn")
    return graph.compile(checkpointer=saver)


@asynccontextmanager
async def saving(asked: Task) -> AsyncIterator[Any]:
    if asked.store == "sqlite":
        async with AsyncSqliteSaver.from_conn_string(asked.place) as saver:
            await saver.setup()
            yield saver
        return
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(
        asked.place, min_size=POOL_MIN, max_size=POOL_MAX, kwargs=options, open=False
    ) as pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        yield saver


def settings(asked: Task) -> dict[str, object]:
    store = {"pool": POOL_MAX} if asked.store == "postgres" else {"journal": "wal"}
    return {"langgraph": version("langgraph"), "durability": DURABILITY, **store}


async def run(graph: Any, name: str, *, turns_max: int = 25) -> None:
    config = {"configurable": {"thread_id": name}, "recursion_limit": turns_max}
    await graph.ainvoke(FIRST, config, durability=DURABILITY)


async def throughput(asked: Task, saver: Any) -> None:
    sizes = asked.sizes
    graph = chain(sizes.steps, saver)
    room = asyncio.Semaphore(sizes.at_once)

    async def one(name: str) -> None:
        async with room:
            await run(graph, name)

    await one("warm-up")
    began = time.perf_counter()
    await asyncio.gather(*(one(f"run {number}") for number in range(sizes.runs)))
    seconds = time.perf_counter() - began
    asked.report({"steps_per_second": sizes.runs * sizes.steps / seconds}, settings=settings(asked))


async def latency(asked: Task, saver: Any) -> None:
    graph = chain(1, saver)
    taken: list[float] = []
    for number in range(asked.sizes.warm_up + asked.sizes.latencies):
        began = time.perf_counter()
        await run(graph, f"run {number}")
        taken.append(time.perf_counter() - began)
    asked.report(quantiles_ms(taken[asked.sizes.warm_up :]), mode="direct", settings=settings(asked))


async def long(asked: Task, saver: Any) -> None:
    turns = asked.sizes.long_steps
    await run(loop(turns, saver), "long", turns_max=turns + 10)
    asked.report(rates(finished, asked.sizes), settings=settings(asked))


async def main() -> None:
    asked = task("langgraph", ("W1", "W2", "W7"))
    work = {"W1": throughput, "W2": latency, "W7": long}[asked.work]
    async with saving(asked) as saver:
        await work(asked, saver)


if __name__ == "__main__":
    asyncio.run(main())
