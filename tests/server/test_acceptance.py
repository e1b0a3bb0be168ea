"""A server without any workflow code, and workers in other processes: everything is there."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwell import Context, step, workflow
from tests.engines import Engines, until
from tests.server.served import BEARER, messages, served
from tests.server.test_serve import running

SOURCE = """
from stepwell import Context, step, workflow

@step
async def double(number: int) -> int:
    return number * 2

@workflow
async def doubling(ctx: Context, number: int) -> int:
    await ctx.signal("go")
    return await ctx.step(double, number)
"""


@step
async def count(number: int) -> int:
    return number


@workflow
async def counting(ctx: Context, rounds: int) -> int:
    for start in range(rounds):
        await asyncio.gather(*(ctx.step(count, start * 200 + number) for number in range(200)))
    return rounds


@contextmanager
def workers(folder: Path, database: str, count: int) -> Iterator[None]:
    command = [sys.executable, "-m", "stepwell", "worker", "flows.py", "--database", database]
    processes = [
        subprocess.Popen(command, cwd=folder, env=os.environ, stderr=subprocess.DEVNULL) for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(timeout=60)


@pytest.mark.slow
@pytest.mark.req("A2", "A3", "K8")
async def test_a_server_without_code_shows_everything_that_two_workers_do(
    postgres: Engines, tmp_path: Path
) -> None:
    (tmp_path / "flows.py").write_text(SOURCE)
    database = str(postgres.database)
    async with postgres.client():
        pass  # creates the tables
    with (
        workers(tmp_path, database, 2),
        running("serve", "--database", database, "--port", "0", folder=tmp_path) as (_, url),
    ):
        async with httpx.AsyncClient(base_url=url, headers=BEARER, timeout=60) as client:

            async def known() -> bool:
                listed = (await client.get("/api/v1/workers")).json()["workers"]
                return len([worker for worker in listed if "doubling@1" in worker["workflows"]]) == 2

            await until(known)
            bodies = [{"workflow": "doubling", "input": number} for number in range(10)]
            answers = [(await client.post("/api/v1/runs", json=body)).json() for body in bodies]
            runs = [answer["id"] for answer in answers]
            async with asyncio.TaskGroup() as group:
                readers = [group.create_task(followed(client, run)) for run in runs]
                for run in runs:
                    await client.post(f"/api/v1/runs/{run}/signal", json={"name": "go"})
            listed = (await client.get("/api/v1/runs?workflow=doubling")).json()["runs"]
            stored = [(await client.get(f"/api/v1/runs/{run}/events")).json()["events"] for run in runs]
            details = [(await client.get(f"/api/v1/runs/{run}")).json() for run in runs]

    assert [reader.result() for reader in readers] == stored
    assert {row["id"] for row in listed} == set(runs)
    assert [detail["output"] for detail in details] == [number * 2 for number in range(10)]
    assert all(events[-1]["type"] == "workflow_finished" for events in stored)


async def followed(client: httpx.AsyncClient, run: str) -> list[dict[str, Any]]:
    """The events of a run as they came, until its end."""
    listed: list[dict[str, Any]] = []
    async with client.stream("GET", f"/api/v1/runs/{run}/stream") as response:
        async for message in messages(response):
            if message.get("event") == "end":
                break
            listed.append(message["data"])
    return listed


@pytest.mark.slow
@pytest.mark.req("A2")
async def test_a_run_of_ten_thousand_events_opens_in_three_small_requests(sqlite: Engines) -> None:
    async with served(sqlite.new(counting)) as client:
        run = await client.started("counting", 50)
        await client.ended(run)
        requests = [
            await client.get(f"/api/v1/runs/{run}"),
            await client.get(f"/api/v1/runs/{run}/events"),
            await client.get(f"/api/v1/runs/{run}/steps"),
        ]

    assert requests[0].json()["seq"] >= 10_000
    assert all(answer.status_code == 200 for answer in requests)
    assert sum(len(answer.content) for answer in requests) <= 2 * 1024 * 1024
