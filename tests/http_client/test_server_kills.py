"""The server is killed again and again: readers miss nothing, and nothing is started twice."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from stepwell import HttpClient, RunHandle, connect
from tests.engines import Engines, until
from tests.http_client.processes import ServerProcess, serving
from tests.server.served import FLOWS, TOKEN, listening

KILLS = 5
READERS = 200
RUNS = 20
WORDS = 5  # for each run between two kills


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.req("A3", "A4")
async def test_readers_have_no_gap_and_no_repeat_while_the_server_is_killed(
    every_durable_engines: Engines,
) -> None:
    async with every_durable_engines.new(*FLOWS) as engine:
        runs = await engine.start_many(listening, [WORDS * (KILLS + 1)] * RUNS)
        with serving(every_durable_engines.database, works=False) as (url, server):
            async with connect(url, key=TOKEN, retry_seconds=60) as client, asyncio.TaskGroup() as group:
                readers = [
                    group.create_task(seqs(client, runs[number % RUNS].id)) for number in range(READERS)
                ]
                for _ in range(KILLS):
                    async with asyncio.TaskGroup() as phase:  # the server dies while words arrive
                        phase.create_task(words_for(runs))
                        phase.create_task(asyncio.to_thread(restart, server))
                await words_for(runs)  # the last ones
        logs = {run.id: [row.seq async for row in run.log()] for run in runs}

    assert all(log == list(range(1, len(log) + 1)) for log in logs.values())
    wrong = [at for at, reader in enumerate(readers) if reader.result() != logs[runs[at % RUNS].id]]
    assert wrong == []


async def seqs(client: HttpClient, run_id: str) -> list[int]:
    return [event.seq async for event in client.handle(run_id).events(follow=True)]


async def words_for(runs: list[RunHandle[list[object]]]) -> None:
    for number in range(WORDS):
        for run in runs:
            await run.signal("word", number)


def restart(server: ServerProcess) -> None:
    server.kill()
    server.start()


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.req("A4", "K20")
async def test_every_keyed_start_happens_once_while_the_server_is_killed(
    every_durable_engines: Engines,
) -> None:
    async with every_durable_engines.new(*FLOWS):
        pass  # the definitions are stored now; nobody works on the runs
    with serving(every_durable_engines.database, works=False) as (url, server):
        async with connect(url, key=TOKEN, retry_seconds=60) as client:
            started: dict[int, str] = {}
            async with asyncio.TaskGroup() as group:
                senders = [
                    group.create_task(send(client, range(first, 1000, 10), started)) for first in range(10)
                ]
                await killed_in_the_middle(server, started)
            assert len(senders) == 10
            again: dict[int, str] = {}
            await send(client, range(1000), again)
            rows = await client.runs(limit=2000)

    assert again == started
    assert sorted(row.key for row in rows) == sorted(f"key-{number}" for number in range(1000))


async def send(client: HttpClient, numbers: range, started: dict[int, str]) -> None:
    for number in numbers:
        run = await client.start("doubling", number, key=f"key-{number}")
        started[number] = run.id


def has_started(share: int, started: dict[int, str]) -> bool:
    return len(started) >= share


async def killed_in_the_middle(server: ServerProcess, started: dict[int, str]) -> None:
    for share in (200, 500, 800):
        await until(partial(has_started, share, started))
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
