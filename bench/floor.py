"""The floor: the least Python that still commits every step before the next one starts.

No leases, no queue, no replay: asyncio, one group committer and the database. While a batch is
being written the next one collects. What an engine does beyond this is what its promises cost.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import apsw
import asyncpg
import msgspec

from bench.measure import Task, quantiles_ms, task

RUNNING, COMPLETED = "running", "completed"


@dataclass(slots=True)
class Batch:
    """Everything that waits to be written, by kind; one transaction writes it."""

    starts: list[tuple[str, str, bytes, float]] = field(default_factory=list)  # run, status, input, at
    steps: list[tuple[str, int, bytes, float]] = field(default_factory=list)  # run, seq, result, at
    ends: list[tuple[str, str, bytes]] = field(default_factory=list)  # run, status, output
    waiting: list[asyncio.Future[None]] = field(default_factory=list)


class Place(Protocol):
    async def write(self, batch: Batch) -> None: ...


class Sqlite:
    """One connection in one thread; one thread hop a batch."""

    def __init__(self, path: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._connection = apsw.Connection(path)
        self._connection.execute("PRAGMA journal_mode = wal")
        self._connection.execute("PRAGMA synchronous = full")
        self._connection.execute(
            "CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, input BLOB, output BLOB, at REAL)"
            " WITHOUT ROWID;"
            "CREATE TABLE steps (run TEXT, seq INTEGER, result BLOB, at REAL, PRIMARY KEY (run, seq))"
            " WITHOUT ROWID"
        )

    async def write(self, batch: Batch) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._write, batch)

    def _write(self, batch: Batch) -> None:
        many = self._connection.executemany
        self._connection.execute("BEGIN IMMEDIATE")
        if batch.starts:
            many("INSERT INTO runs (id, status, input, at) VALUES (?, ?, ?, ?)", batch.starts)
        if batch.steps:
            many("INSERT INTO steps (run, seq, result, at) VALUES (?, ?, ?, ?)", batch.steps)
        if batch.ends:
            many("UPDATE runs SET status = ?2, output = ?3 WHERE id = ?1", batch.ends)
        self._connection.execute("COMMIT")

    async def close(self) -> None:
        self._thread.shutdown()
        self._connection.close()


class Postgres:
    """One connection; one statement, so one round trip and one flush, whatever the batch holds."""

    WRITE = """
        WITH started AS (
            INSERT INTO runs (id, status, input, at)
            SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::float8[])
        ), stepped AS (
            INSERT INTO steps (run, seq, result, at)
            SELECT * FROM unnest($5::text[], $6::int[], $7::bytea[], $8::float8[])
        )
        UPDATE runs
        SET status = ended.status, output = ended.output
        FROM unnest($9::text[], $10::text[], $11::bytea[]) AS ended (id, status, output)
        WHERE runs.id = ended.id
    """

    def __init__(self, connection: Any, statement: Any) -> None:
        self._connection = connection
        self._statement = statement

    @classmethod
    async def open(cls, url: str) -> Postgres:
        connection = await asyncpg.connect(url)
        await connection.execute(
            "CREATE TABLE runs (id text PRIMARY KEY, status text, input bytea, output bytea, at float8);"
            "CREATE TABLE steps (run text, seq int, result bytea, at float8, PRIMARY KEY (run, seq))"
        )
        return cls(connection, await connection.prepare(cls.WRITE))

    async def write(self, batch: Batch) -> None:
        columns = (*across(batch.starts, 4), *across(batch.steps, 4), *across(batch.ends, 3))
        await self._statement.fetch(*columns)

    async def close(self) -> None:
        await self._connection.close()


def across(rows: Sequence[tuple[object, ...]], width: int) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


class Committer:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self.next = Batch()
        self.batches = 0

    def written(self) -> asyncio.Future[None]:
        """Done when what the caller just put into `next` is on disk."""
        done = self._loop.create_future()
        self.next.waiting.append(done)
        self._wake.set()
        return done

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch, self.next = self.next, Batch()
            await self._place.write(batch)
            self.batches += 1
            for done in batch.waiting:
                done.set_result(None)
            await asyncio.sleep(0)  # the released runs add their next steps to one batch


async def step(number: int) -> dict[str, object]:
    return {"i": number, "ok": True}


async def run(committer: Committer, steps: int) -> None:
    name = uuid.uuid4().hex
    committer.next.starts.append((name, RUNNING, b'{"n":10}', time.time()))
    await committer.written()
    for number in range(steps):
        result = msgspec.json.encode(await step(number))
        committer.next.steps.append((name, number, result, time.time()))
        await committer.written()
    committer.next.ends.append((name, COMPLETED, b'{"n":10}'))
    await committer.written()


@asynccontextmanager
async def committing(asked: Task) -> AsyncIterator[Committer]:
    place = Sqlite(asked.place) if asked.store == "sqlite" else await Postgres.open(asked.place)
    committer = Committer(place)
    running = asyncio.create_task(committer.run())
    try:
        yield committer
    finally:
        running.cancel()
        await place.close()


async def rate(asked: Task) -> tuple[float, float]:
    """Steps a second, and how many writes shared a batch."""
    sizes = asked.sizes
    room = asyncio.Semaphore(sizes.at_once)

    async def one(committer: Committer) -> None:
        async with room:
            await run(committer, sizes.steps)

    async with committing(asked) as committer:
        began = time.perf_counter()
        await asyncio.gather(*(one(committer) for _ in range(sizes.runs)))
        seconds = time.perf_counter() - began
        writes = sizes.runs * (sizes.steps + 2)
    return sizes.runs * sizes.steps / seconds, writes / committer.batches


async def throughput(asked: Task) -> None:
    steps, writes = await rate(asked)
    settings = {"group commit": True, "writes a batch": round(writes, 1)}
    asked.report({"steps_per_second": steps}, settings=settings)


async def latency(asked: Task) -> None:
    taken: list[float] = []
    async with committing(asked) as committer:
        for _ in range(asked.sizes.warm_up + asked.sizes.latencies):
            began = time.perf_counter()
            await run(committer, 1)
            taken.append(time.perf_counter() - began)
    asked.report(quantiles_ms(taken[asked.sizes.warm_up :]), mode="direct")


if __name__ == "__main__":
    measured = task("floor", ("W1", "W2"))
    asyncio.run(throughput(measured) if measured.work == "W1" else latency(measured))
