"""Limits under kills: four processes, caps of 10 and 50, and never one run more; each lane in order."""

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

import pytest

from stepwell import Engine, RunHandle
from tests.engines import until
from tests.faults import audit
from tests.faults.limited_work import NAMES, PER_WORKFLOW, PER_WORKSPACE, engine

RUNS = int(os.environ.get("STEPWELL_LIMIT_RUNS", "2004"))
KILLS = 2
ENDLESS = 10**9  # runs for a process that is killed before it has started them all


def process(url: str, starts: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.faults.limited_work", url, str(starts)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)


@contextmanager
def fleet(url: str, count: int, *, starts: int = 0) -> Iterator[list[subprocess.Popen[bytes]]]:
    workers = [process(url, starts) for _ in range(count)]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"ready\n"
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
            assert worker.stdout is not None
            worker.stdout.close()


@pytest.mark.slow
@pytest.mark.req("K19", "K4")
async def test_limits_are_never_exceeded_and_no_slot_leaks(postgres_url: str) -> None:
    runs: dict[str, list[RunHandle[Any]]] = {}
    async with engine(postgres_url, worker=False) as client:
        await audit.install(postgres_url)
        for name in NAMES:
            runs[name] = list(await client.start_many(name, [{}] * (RUNS // len(NAMES))))
        with fleet(postgres_url, 4) as workers:
            for number in range(KILLS):
                await runs[NAMES[0]][5 * (number + 1)].result(timeout=50)
                workers[number].send_signal(signal.SIGKILL)
            for handle in (handle for handles in runs.values() for handle in handles):
                assert await handle.result(timeout=120) == {"done": True}
        left = await client.store.read_lanes()
        leases = await audit.read(postgres_url)

    assert left == []
    assert audit.left_over(leases) == 0
    assert audit.most_at_once(leases) == (PER_WORKFLOW, PER_WORKSPACE)
    for name, handles in runs.items():
        assert audit.first_takes(leases, name) == sorted(handle.id for handle in handles)


@pytest.mark.slow
@pytest.mark.req("K19", "K4")
async def test_limits_hold_where_those_who_start_runs_work_on_them(postgres_url: str) -> None:
    """The processes own some runs from the start and claim the others, and one of them dies.

    That one is alone at first, when there are slots for all its runs: how many are owned from the
    start among several processes, each of which wants more than is left, is a matter of luck.
    """
    async with engine(postgres_url, worker=False) as client:
        await audit.install(postgres_url)
        with fleet(postgres_url, 1, starts=ENDLESS) as [doomed]:
            await until(lambda: audit.any_born(postgres_url))
            with fleet(postgres_url, 2, starts=RUNS // 6) as workers:
                doomed.send_signal(signal.SIGKILL)
                for worker in workers:
                    assert worker.stdout is not None
                    assert await asyncio.to_thread(worker.stdout.readline) == b"done\n"
                async with engine(postgres_url):  # finishes what the dead one began
                    await until(lambda: nothing_in_hand(client))
        leases = await audit.read(postgres_url)

    assert audit.left_over(leases) == 0
    of_one, of_all = audit.most_at_once(leases)
    assert 1 < of_one <= PER_WORKFLOW
    assert of_one < of_all <= PER_WORKSPACE


async def nothing_in_hand(client: Engine) -> bool:
    return not await client.runs(status=("pending", "running"), limit=1)
