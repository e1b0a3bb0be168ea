"""pgqrs: its Rust core with Python workflows; one consumer, 50 runs at once, polling every 5 ms.

Throughput is taken from a full queue, without the time that filling it takes. A step's name is its
function's, so every step of a run is a function of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import pgqrs
from pgqrs.decorators import step as as_step
from pgqrs.decorators import workflow

from bench.measure import Task, quantiles_ms, rates, task

POOL = 16
WORKER_POLL_SECONDS = 0.005
RESULT_POLL_SECONDS = 0.002
STARTS_AT_ONCE = 16
NAMES = ("steps_in_turn", "long_run")

finished: list[float] = []


def numbered_step(number: int) -> Callable[[Any], Any]:
    async def body(context: Any) -> dict[str, object]:
        return {"i": number, "ok": True}

    body.__name__ = f"step_{number}"
    decorated: Callable[[Any], Any] = as_step(body)
    return decorated


steps: list[Callable[[Any], Any]] = []


@workflow(name="steps_in_turn")
async def steps_in_turn(context: Any, count: int) -> dict[str, int]:
    for number in range(count):
        await steps[number](context)
    return {"n": count}


@workflow(name="long_run")
async def long_run(context: Any, count: int) -> dict[str, int]:
    for number in range(count):
        await steps[number](context)
        finished.append(time.perf_counter())
    return {"n": count}


class Worker:
    """Takes messages and runs each as a task, never more than `room` at once."""

    def __init__(self, store: Any, program: Any, room: int) -> None:
        self._store = store
        self._program = program
        self._room = room
        self._live: set[asyncio.Task[None]] = set()
        self.done = 0

    async def run(self) -> None:
        consumer = await self._store.consumer(self._program.name)
        while True:
            free = self._room - len(self._live)
            messages = await consumer.dequeue(batch_size=free) if free else []
            self._live |= {asyncio.create_task(self._one(consumer, message)) for message in messages}
            if messages:
                continue
            if self._live:
                ended, self._live = await asyncio.wait(
                    self._live, timeout=WORKER_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                for one in ended:
                    one.result()
            else:
                await asyncio.sleep(WORKER_POLL_SECONDS)

    async def _one(self, consumer: Any, message: Any) -> None:
        context = await pgqrs.run().message(message).store(self._store).execute()
        await self._program(context, message.payload)
        await consumer.archive(message.id)
        self.done += 1

    async def completed(self, count: int) -> None:
        while self.done < count:
            await asyncio.sleep(WORKER_POLL_SECONDS)


@asynccontextmanager
async def working(store: Any, program: Any, room: int) -> AsyncIterator[Worker]:
    worker = Worker(store, program, room)
    running = asyncio.create_task(worker.run())
    running.add_done_callback(lambda ended: None if ended.cancelled() else ended.result())
    try:
        yield worker
    finally:
        running.cancel()


async def connect(asked: Task) -> Any:
    store = await pgqrs.connect_with(pgqrs.Config(asked.place, max_connections=POOL))
    await pgqrs.admin(store).install()
    for name in NAMES:
        await pgqrs.workflow().name(name).store(store).create()
    return store


async def start(store: Any, name: str, count: int) -> Any:
    return await pgqrs.workflow().name(name).store(store).trigger(count).execute()


def settings(asked: Task, **more: object) -> dict[str, object]:
    return {
        "pgqrs": version("pgqrs"),
        "pool": POOL,
        "concurrency": asked.sizes.at_once,
        "worker poll s": WORKER_POLL_SECONDS,
        **more,
    }


async def throughput(asked: Task, store: Any) -> None:
    sizes = asked.sizes
    for _ in range(sizes.runs):
        await start(store, "steps_in_turn", sizes.steps)
    began = time.perf_counter()
    async with working(store, steps_in_turn, sizes.at_once) as worker:
        await worker.completed(sizes.runs)
        seconds = time.perf_counter() - began
    figures = {"steps_per_second": sizes.runs * sizes.steps / seconds}
    asked.report(figures, settings=settings(asked, **{"starting is timed": False}))


async def latency(asked: Task, store: Any) -> None:
    sizes = asked.sizes
    taken: list[float] = []
    async with working(store, steps_in_turn, sizes.at_once):
        for _ in range(sizes.warm_up + sizes.latencies):
            began = time.perf_counter()
            message = await start(store, "steps_in_turn", 1)
            while await pgqrs.run().message(message).store(store).get() is None:
                await asyncio.sleep(RESULT_POLL_SECONDS)
            taken.append(time.perf_counter() - began)
    told = settings(asked, **{"result poll s": RESULT_POLL_SECONDS})
    asked.report(quantiles_ms(taken[sizes.warm_up :]), mode="queue", settings=told)


async def starts(asked: Task, store: Any) -> None:
    sizes = asked.sizes
    began = time.perf_counter()
    for _ in range(sizes.starts):
        await start(store, "steps_in_turn", sizes.steps)
    seconds = time.perf_counter() - began
    asked.report({"runs_per_second": sizes.starts / seconds}, mode="one by one", settings=settings(asked))

    room = asyncio.Semaphore(STARTS_AT_ONCE)

    async def one() -> None:
        async with room:
            await start(store, "steps_in_turn", sizes.steps)

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(sizes.starts)))
    seconds = time.perf_counter() - began
    told = settings(asked, **{"no batch call for runs; starts at once": STARTS_AT_ONCE})
    asked.report({"runs_per_second": sizes.starts / seconds}, mode="batch", settings=told)


async def long(asked: Task, store: Any) -> None:
    async with working(store, long_run, asked.sizes.at_once) as worker:
        await start(store, "long_run", asked.sizes.long_steps)
        await worker.completed(1)
    asked.report(rates(finished, asked.sizes), settings=settings(asked))


async def main() -> None:
    asked = task("pgqrs", ("W1", "W2", "W3", "W7"), ("postgres",))
    steps.extend(numbered_step(number) for number in range(asked.sizes.long_steps))
    store = await connect(asked)
    work = {"W1": throughput, "W2": latency, "W3": starts, "W7": long}[asked.work]
    await work(asked, store)


if __name__ == "__main__":
    asyncio.run(main())
