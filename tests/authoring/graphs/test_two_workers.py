"""Graphs on two worker processes and PostgreSQL: no node is dispatched twice, also under kill -9."""

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
from msgspec import Raw

from stepwell import Engine, RunHandle, Status
from stepwell.domain.messages import EndNotice, step_ended
from tests.authoring.graphs.graphs import START, a, chart
from tests.authoring.graphs.topologies import GRAPHS, SETTINGS, Z, w, work
from tests.engines import Engines, all_events, until

RUNS = {"linear": 100, "diamond-and": 50}
MORE = 5  # runs of each other shape


@contextmanager
def workers(
    url: str, ledger: Path, count: int, *, queue: str = "default", lease: float = 60.0
) -> Iterator[list[subprocess.Popen[bytes]]]:
    env = {**os.environ, "GRAPH_LEDGER": str(ledger), "GRAPH_LEASE": str(lease)}
    command = [sys.executable, "-m", "tests.authoring.graphs.topologies", url, queue]
    root = Path(__file__).parents[3]
    started = [subprocess.Popen(command, env=env, cwd=root, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def client(url: Any) -> Engine:
    return Engine(url, workflows=GRAPHS.values(), nodes=[work], settings=SETTINGS, worker=False)


async def started(engine: Engine) -> list[RunHandle[Any]]:
    runs: list[RunHandle[Any]] = []
    for name in GRAPHS:
        inputs = [{"n": i % 2} for i in range(RUNS.get(name, MORE))]
        runs += await engine.start_many(name, inputs)
    return runs


async def settled_once(run: RunHandle[Any]) -> None:
    """Each step has one result in the log, and each join fired once."""
    events = await all_events(run)
    results = Counter(e.path for e in events if e.kind in ("step_completed", "node_completed"))
    twice = {path: count for path, count in results.items() if count > 1}
    assert not twice, f"{run.id}: {twice}"


@pytest.mark.slow
@pytest.mark.req("G6", "K6", "K22")
async def test_twelve_topologies_on_two_processes_dispatch_nothing_twice(
    postgres: Engines, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    async with client(postgres.database) as engine:
        with workers(str(postgres.database), ledger, 2):
            runs = await started(engine)
            for run in runs:
                assert await run.result(timeout=50) == {"done": True}
        for run in runs:
            await settled_once(run)

    executed = Counter(ledger.read_text().splitlines())
    assert len({line.split("/")[0] for line in executed}) == len(runs)
    assert [line for line, count in executed.items() if count > 1] == []


@pytest.mark.slow
@pytest.mark.req("K4", "G6")
async def test_a_killed_process_loses_nothing_and_records_nothing_twice(
    postgres: Engines, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    async with client(postgres.database) as engine:
        with workers(str(postgres.database), ledger, 3, lease=2.0) as processes:
            runs = await started(engine)
            await until(lambda: ledger.exists() and ledger.read_text().count("\n") > 150)
            processes[0].send_signal(signal.SIGKILL)
            for run in runs:
                assert await run.result(timeout=50) == {"done": True}
        for run in runs:
            await settled_once(run)
            assert await run.status() is Status.COMPLETED


@pytest.mark.slow
@pytest.mark.req("K2", "G6", "G17")
async def test_results_that_come_twice_from_two_processes_dispatch_nothing_twice(
    postgres: Engines, tmp_path: Path
) -> None:
    """GC-K02: every result of a remote node is delivered again, by another process."""
    ledger = tmp_path / "ledger"
    branches = [w(f"A{i}", queue="far") for i in range(8)]
    edges = " ".join(f"F>A{i} A{i}>J" for i in range(8))
    nodes = [START, a("F", "fork"), *branches, a("J", "merge"), w("D", queue="far"), w("E", queue="far"), Z]
    body = chart(nodes, f"S>F {edges} J>D D>E E>Z", name="remote")
    engine = Engine(postgres.database, workflows=[body], nodes=[work], settings=SETTINGS)
    async with engine:
        with workers(str(postgres.database), ledger, 2, queue="far"):
            runs: list[RunHandle[Any]] = await engine.start_many("remote", [{} for _ in range(10)])

            async with asyncio.TaskGroup() as group:
                for run in runs:
                    group.create_task(_repeat(engine, run))
            results = [await run.result(timeout=60) for run in runs]

        assert results == [{"done": True}] * len(runs)
        for run in runs:
            await settled_once(run)
    executed = Counter(ledger.read_text().splitlines())
    assert len(executed) == len(runs) * 10
    assert set(executed.values()) == {1}


async def _repeat(engine: Engine, run: RunHandle[Any]) -> None:
    """Deliver each result again, with the same key and another value, as long as the run goes on."""
    again = EndNotice(status="completed", result=Raw(b'{"output":"other"}'), attempt=1)
    async with asyncio.timeout(60):
        while not (await run.status()).terminal:
            for path, step in (await run.state()).steps.items():
                if step.status == "completed":
                    await engine.store.deliver([step_ended(run.id, path, 1, again)])
            await asyncio.sleep(0.02)
