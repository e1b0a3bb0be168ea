"""Absurd: one async worker with 50 tasks at once, polling every 10 ms instead of every 250.

Throughput is taken from a full queue, without the time that filling it takes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import psycopg
from absurd_sdk import AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL

from bench.measure import Task, quantiles_ms, rates, task

QUEUE = "default"
WORKER_POLL_SECONDS = 0.01
RESULT_POLL_SECONDS = 0.002
CLAIM_SECONDS = 120
CLIENTS = 8
SETTINGS = {"absurd-sdk": version("absurd-sdk"), "worker poll s": WORKER_POLL_SECONDS, "concurrency": 50}

finished: list[float] = []


async def step() -> dict[str, object]:
    return {"i": 1, "ok": True}


async def steps_in_turn(count: int, context: Any) -> dict[str, int]:
    for number in range(count):
        await context.step(f"step {number}", step)
    return {"n": count}


async def long_run(count: int, context: Any) -> dict[str, int]:
    for number in range(count):
        await context.step(f"step {number}", step)
        finished.append(time.perf_counter())
    return {"n": count}


def connect(url: str) -> Any:
    app = AsyncAbsurd(url)
    app.register_task("steps_in_turn")(steps_in_turn)
    app.register_task("long_run")(long_run)
    return app


def install(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BUNDLED_SCHEMA_SQL)
        connection.execute("SELECT absurd.create_queue(%s)", (QUEUE,))


@asynccontextmanager
async def working(asked: Task) -> AsyncIterator[None]:
    app = connect(asked.place)
    worker = asyncio.create_task(
        app.start_worker(
            concurrency=asked.sizes.at_once, poll_interval=WORKER_POLL_SECONDS, claim_timeout=CLAIM_SECONDS
        )
    )
    try:
        yield
    finally:
        app.stop_worker()
        await worker
        await app.close()


async def completed(url: str, count: int) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while True:
            cursor = await connection.execute(
                "SELECT count(*) FROM absurd.t_default WHERE state = 'completed'"
            )
            row = await cursor.fetchone()
            if row and row[0] >= count:
                return
            await asyncio.sleep(0.02)


async def throughput(asked: Task) -> None:
    sizes = asked.sizes
    client = connect(asked.place)
    for _ in range(sizes.runs):
        await client.spawn("steps_in_turn", sizes.steps)
    began = time.perf_counter()
    async with working(asked):
        await completed(asked.place, sizes.runs)
        seconds = time.perf_counter() - began
    await client.close()
    figures = {"steps_per_second": sizes.runs * sizes.steps / seconds}
    asked.report(figures, settings={**SETTINGS, "starting is timed": False})


async def latency(asked: Task) -> None:
    sizes = asked.sizes
    client = connect(asked.place)
    taken: list[float] = []
    async with working(asked):
        for _ in range(sizes.warm_up + sizes.latencies):
            began = time.perf_counter()
            spawned = await client.spawn("steps_in_turn", 1)
            while True:
                snapshot = await client.fetch_task_result(str(spawned["task_id"]))
                if snapshot and snapshot.state == "completed":
                    break
                await asyncio.sleep(RESULT_POLL_SECONDS)
            taken.append(time.perf_counter() - began)
    await client.close()
    polls = {"result poll s": RESULT_POLL_SECONDS}
    asked.report(quantiles_ms(taken[sizes.warm_up :]), mode="queue", settings={**SETTINGS, **polls})


async def starts(asked: Task) -> None:
    sizes = asked.sizes
    client = connect(asked.place)
    began = time.perf_counter()
    for _ in range(sizes.starts):
        await client.spawn("steps_in_turn", sizes.steps)
    seconds = time.perf_counter() - began
    await client.close()
    asked.report({"runs_per_second": sizes.starts / seconds}, mode="one by one", settings=SETTINGS)

    async def share(app: Any) -> None:
        for _ in range(sizes.starts // CLIENTS):
            await app.spawn("steps_in_turn", sizes.steps)

    clients = [connect(asked.place) for _ in range(CLIENTS)]
    began = time.perf_counter()
    await asyncio.gather(*(share(app) for app in clients))
    seconds = time.perf_counter() - began
    for app in clients:
        await app.close()
    many = {"no batch call; clients at once": CLIENTS}
    asked.report({"runs_per_second": sizes.starts / seconds}, mode="batch", settings={**SETTINGS, **many})


async def long(asked: Task) -> None:
    client = connect(asked.place)
    async with working(asked):
        await client.spawn("long_run", asked.sizes.long_steps)
        await completed(asked.place, 1)
    await client.close()
    asked.report(rates(finished, asked.sizes), settings=SETTINGS)


def main() -> None:
    asked = task("absurd", ("W1", "W2", "W3", "W7"), ("postgres",))
    install(asked.place)
    work = {"W1": throughput, "W2": latency, "W3": starts, "W7": long}[asked.work]
    asyncio.run(work(asked))


if __name__ == "__main__":
    main()
