"""Limits under kills: four processes, caps of 10 and 50, and never one run more."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine, RunHandle
from stepwell.domain.limits import read_lane
from tests.faults.limited_work import NAMES, PER_WORKFLOW, PER_WORKSPACE, engine
from tests.stage import all_events

RUNS = int(os.environ.get("STEPWELL_LIMIT_RUNS", "198"))  # `make faults` does 2,000
KILLS = 2


def process(url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.faults.limited_work", url]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)


@contextmanager
def fleet(url: str, count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    workers = [process(url) for _ in range(count)]
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


async def sample(client: Engine, seen: list[Counter[str]]) -> None:
    """What the store says is leased, in one statement each time."""
    while True:
        use: Counter[str] = Counter()
        for lane, leased, _ in await client.store.read_lanes():
            use[read_lane(lane).workflow] += leased
        seen.append(use)
        await asyncio.sleep(0.005)


def owned(events: list[Any]) -> list[tuple[float, float]]:
    """When a worker had the run, as far as its log tells: from each claim to what that worker wrote last."""
    spans: list[tuple[float, float]] = []
    for event in events:
        if event.kind == "claimed":
            spans.append((event.at.timestamp(), event.at.timestamp()))
        elif spans:
            spans[-1] = (spans[-1][0], event.at.timestamp())
    return spans


def most_at_once(spans: list[tuple[float, float]]) -> int:
    """An end and a beginning at the same moment do not overlap."""
    moves = sorted([(end, -1) for _, end in spans] + [(begin, 1) for begin, _ in spans])
    now = most = 0
    for _, move in moves:
        now += move
        most = max(most, now)
    return most


def out_of_order(logs: list[list[Any]]) -> int:
    """Of runs in the order of their tickets: how many began more than a cap's width from their place.

    The log has no time of the claim, only of the owner's first commit: those that have a slot at the same
    time may write in any order. Runs that lost an owner may have begun without a trace: they do not count.
    """
    firsts = [owned(log)[0][0] for log in logs if all(event.kind != "lease_lost" for event in log)]
    order = sorted(range(len(firsts)), key=lambda number: firsts[number])
    return sum(abs(place - number) > PER_WORKFLOW for place, number in enumerate(order))


@pytest.mark.slow
@pytest.mark.req("K19", "K4")
async def test_limits_are_never_exceeded_and_no_slot_leaks(postgres_url: str) -> None:
    seen: list[Counter[str]] = []
    runs: dict[str, list[RunHandle[Any]]] = {}
    async with engine(postgres_url, worker=False) as client:
        for name in NAMES:
            runs[name] = list(await client.start_many(name, [{}] * (RUNS // len(NAMES))))
        sampling = asyncio.create_task(sample(client, seen))
        with fleet(postgres_url, 4) as workers:
            for number in range(KILLS):
                await runs[NAMES[0]][5 * (number + 1)].result(timeout=50)
                workers[number].send_signal(signal.SIGKILL)
            for handle in (handle for handles in runs.values() for handle in handles):
                assert await handle.result(timeout=120) == {"done": True}
        sampling.cancel()
        left = await client.store.read_lanes()
        logs = {
            name: [await all_events(run) for run in sorted(handles, key=lambda run: run.id)]
            for name, handles in runs.items()
        }

    spans = {name: [span for log in found for span in owned(log)] for name, found in logs.items()}
    assert left == []
    assert max(max(use.values(), default=0) for use in seen) == PER_WORKFLOW
    assert max(use.total() for use in seen) == PER_WORKSPACE
    assert max(most_at_once(found) for found in spans.values()) <= PER_WORKFLOW
    assert most_at_once([span for found in spans.values() for span in found]) <= PER_WORKSPACE
    assert [out_of_order(found) for found in logs.values()] == [0] * len(NAMES)
