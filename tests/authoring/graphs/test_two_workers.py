"""Graphs on two worker processes and PostgreSQL: no node is dispatched twice, also under kill -9."""

from __future__ import annotations

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

from stepwell import Engine, RunHandle, Status
from tests.authoring.graphs.topologies import GRAPHS, SETTINGS, work
from tests.stage import Stage, all_events, until

RUNS = {"linear": 100, "diamond-and": 50}
MORE = 5  # runs of each other shape


@contextmanager
def workers(url: str, ledger: Path, count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    env = {**os.environ, "GRAPH_LEDGER": str(ledger)}
    command = [sys.executable, "-m", "tests.authoring.graphs.topologies", url]
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
    postgres: Stage, tmp_path: Path
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
    postgres: Stage, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    async with client(postgres.database) as engine:
        with workers(str(postgres.database), ledger, 3) as processes:
            runs = await started(engine)
            await until(lambda: ledger.exists() and ledger.read_text().count("\n") > 150)
            processes[0].send_signal(signal.SIGKILL)
            for run in runs:
                assert await run.result(timeout=50) == {"done": True}
        for run in runs:
            await settled_once(run)
            assert await run.status() is Status.COMPLETED
