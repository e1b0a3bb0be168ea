"""DBOS Transact: its SQLite file in WAL mode, its PostgreSQL pool raised to 20.

Started directly for throughput and latency; through a queue polled every 10 ms instead of every second.
Throughput is taken with the form of workflow that was the faster on that store in one short trial on a
busy two-core machine: plain functions in threads on SQLite, coroutines on PostgreSQL.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import sqlalchemy
from dbos import DBOS, DBOSClient

from bench.measure import Sizes, Task, quantiles_ms, rates, task

POOL = 20
THREADS = 64
QUEUE = "bench"
NOBODY = "nobody takes these"
QUEUE_POLL_SECONDS = 0.01
RESULT_POLL_SECONDS = 0.005

finished: list[float] = []


@DBOS.step()
async def step(number: int) -> dict[str, object]:
    return {"i": number, "ok": True}


@DBOS.workflow()
async def steps_in_turn(count: int) -> dict[str, int]:
    for number in range(count):
        await step(number)
    return {"n": count}


@DBOS.step()
def plain_step(number: int) -> dict[str, object]:
    return {"i": number, "ok": True}


@DBOS.workflow()
def plain_steps_in_turn(count: int) -> dict[str, int]:
    for number in range(count):
        plain_step(number)
    return {"n": count}


@DBOS.workflow()
async def long_run(count: int) -> dict[str, int]:
    for number in range(count):
        await step(number)
        finished.append(time.perf_counter())
    return {"n": count}


def settings(asked: Task, **more: object) -> dict[str, object]:
    store = {"journal": "wal"} if asked.store == "sqlite" else {"pool": POOL}
    return {"dbos": version("dbos"), "executor threads": THREADS, **store, **more}


def launch(asked: Task) -> str:
    if asked.store == "sqlite":
        url = f"sqlite:///{asked.place}"
        connection = sqlite3.connect(asked.place)
        connection.execute("PRAGMA journal_mode = wal")
        connection.close()
    else:
        url = asked.place
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "sys_db_pool_size": POOL,
            "max_executor_threads": THREADS,
            "notification_listener_polling_interval_sec": 0.01,
            "application_version": "1",
            "log_level": "ERROR",
        }
    )
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=50, polling_interval_sec=QUEUE_POLL_SECONDS)
    return url


async def coroutines(sizes: Sizes, runs: int) -> None:
    room = asyncio.Semaphore(sizes.at_once)

    async def one() -> None:
        async with room:
            handle = await DBOS.start_workflow_async(steps_in_turn, sizes.steps)
            await handle.get_result()

    await asyncio.gather(*(one() for _ in range(runs)))


async def threads(sizes: Sizes, runs: int) -> None:
    def one() -> None:
        DBOS.start_workflow(plain_steps_in_turn, sizes.steps).get_result()

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max_workers=sizes.at_once) as pool:
        await asyncio.gather(*(loop.run_in_executor(pool, one) for _ in range(runs)))


async def throughput(asked: Task) -> None:
    sizes = asked.sizes
    form = threads if asked.store == "sqlite" else coroutines
    await form(sizes, sizes.warm_up)
    began = time.perf_counter()
    await form(sizes, sizes.runs)
    seconds = time.perf_counter() - began
    figures = {"steps_per_second": sizes.runs * sizes.steps / seconds}
    asked.report(figures, settings=settings(asked, workflows=form.__name__))


async def latency(asked: Task) -> None:
    sizes = asked.sizes
    direct: list[float] = []
    for _ in range(sizes.warm_up + sizes.latencies):
        began = time.perf_counter()
        handle = await DBOS.start_workflow_async(steps_in_turn, 1)
        await handle.get_result()
        direct.append(time.perf_counter() - began)
    asked.report(quantiles_ms(direct[sizes.warm_up :]), mode="direct", settings=settings(asked))

    queued: list[float] = []
    for _ in range(sizes.warm_up + sizes.latencies // 2):
        began = time.perf_counter()
        handle = await DBOS.enqueue_workflow_async(QUEUE, steps_in_turn, 1)
        await handle.get_result(polling_interval_sec=RESULT_POLL_SECONDS)
        queued.append(time.perf_counter() - began)
    polls = {"queue poll s": QUEUE_POLL_SECONDS, "result poll s": RESULT_POLL_SECONDS}
    asked.report(quantiles_ms(queued[sizes.warm_up :]), mode="queue", settings=settings(asked, **polls))


def starts(asked: Task, url: str) -> None:
    sizes = asked.sizes
    client = DBOSClient(system_database_url=url)
    options = {"queue_name": NOBODY, "workflow_name": steps_in_turn.__qualname__}
    began = time.perf_counter()
    for _ in range(sizes.starts):
        client.enqueue(options, 1)
    seconds = time.perf_counter() - began
    asked.report({"runs_per_second": sizes.starts / seconds}, mode="one by one", settings=settings(asked))

    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    began = time.perf_counter()
    for _ in range(sizes.starts // sizes.batch):
        with engine.begin() as connection:
            for _ in range(sizes.batch):
                client.enqueue_in_transaction(connection, options, 1)
    seconds = time.perf_counter() - began
    told = settings(asked, enqueue_in_transaction=sizes.batch)
    asked.report({"runs_per_second": sizes.starts / seconds}, mode="batch", settings=told)


async def long(asked: Task) -> None:
    handle = await DBOS.start_workflow_async(long_run, asked.sizes.long_steps)
    await handle.get_result()
    asked.report(rates(finished, asked.sizes), settings=settings(asked))


def main() -> None:
    asked = task("dbos", ("W1", "W2", "W3", "W7"))
    url = launch(asked)
    if asked.work == "W1":
        asyncio.run(throughput(asked))
    elif asked.work == "W2":
        asyncio.run(latency(asked))
    elif asked.work == "W3":
        starts(asked, url)
    else:
        asyncio.run(long(asked))
    os._exit(0)  # its background threads would keep the process for seconds


if __name__ == "__main__":
    main()
