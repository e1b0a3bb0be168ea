"""kill -9 inside a machine's transitions, at every failpoint: a transition happened wholly or not at all."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepwell import Engine, failpoints
from tests.faults.fleet import ROOT
from tests.faults.machine_work import DOCUMENTS, EFFECTS, STATES
from tools.postgres.databases import Databases

COMMITS = 6  # claimed + open, failed, prepared, parked, approved, ended: at each of them
POINTS = [
    *((f"commit.{moment}", hit) for moment in failpoints.MOMENTS for hit in range(1, COMMITS + 1)),
    *((f"{name}.{moment}", 1) for name in ("start", "claim", "deliver") for moment in failpoints.MOMENTS),
    *((f"claim.{moment}", 2) for moment in failpoints.MOMENTS),
]
LEASE = {
    "STEPWELL_LEASE_SECONDS": "1",
    "STEPWELL_HEARTBEAT_SECONDS": "0.2",
    "STEPWELL_SWEEP_SECONDS": "0.2",
    "STEPWELL_KEEP_LEASE_SECONDS": "0.001",
}


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, **LEASE, EFFECTS: str(folder / "effects"), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


def kill(url: str, point: tuple[str, int], folder: Path) -> int:
    """Let it run until it is killed there; its exit code."""
    name, hit = point
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.machine_work", "visit", url],
        env={**environment(folder), "STEPWELL_FAILPOINTS": f"{name}=kill:{hit}"},
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode


async def evidence(url: str) -> tuple[list[Any], dict[str, Any] | None]:
    """The run's events, and where its last checkpoint says it is."""
    async with Engine(url, worker=False) as client:
        run = await client.find("booking")
        if run is None:
            return [], None
        events = [event async for event in run.events()]
        checkpoint = (await run.state()).checkpoint
        if checkpoint is None:
            return events, None
        documents = {d.name: msgspec.json.decode(d.value) for d in await run.documents()}
        return events, {
            "place": checkpoint.place,
            "state": msgspec.json.decode(checkpoint.state),
            "documents": documents,
        }


def violations(events: list[Any], shown: dict[str, Any] | None, *, ended: bool) -> Iterator[str]:
    done = [event.data for event in events if event.kind == "transition_completed"]
    if [d["version"] for d in done] != list(range(1, len(done) + 1)):
        yield f"checkpoints {[d['version'] for d in done]}"
    if [d["state"] for d in done] != STATES[: len(done)]:
        yield f"states {[d['state'] for d in done]}"
    last = done[-1] if done else {}
    kept = DOCUMENTS[len(done) - 1]
    if done and shown != {"place": last["target"], "state": last["state"], "documents": kept}:
        yield f"shown {shown}, checkpoint {done[-1]}"
    steps = Counter(event.path for event in events if event.kind == "step_completed")
    if any(count > 1 for count in steps.values()):
        yield f"recorded twice: {steps}"
    if ended and ([d["target"] for d in done] != ["work", "review", "end"] or events[-1].kind != "completed"):
        yield f"ended as {[event.kind for event in events]}"


def play(urls: list[str], folder: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda pair: kill(pair[0], pair[1], folder), zip(urls, POINTS, strict=True)))
    unreached = [point for point, code in zip(POINTS, codes, strict=True) if code != -9]
    assert unreached == [], "these points were never reached"
    found: dict[str, list[str]] = {}
    for point, url in zip(POINTS, urls, strict=True):  # as the kill left it
        found[f"{point} killed"] = list(violations(*asyncio.run(evidence(url)), ended=False))

    finished = subprocess.run(
        [sys.executable, "-m", "tests.faults.machine_work", "finish", *urls],
        env=environment(folder),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert finished.stdout == ""
    runs = set()
    for point, url in zip(POINTS, urls, strict=True):
        events, shown = asyncio.run(evidence(url))
        found[f"{point} finished"] = list(violations(events, shown, ended=True))
        runs.add(events[0].data["root"])
    assert {name: texts for name, texts in found.items() if texts} == {}
    effects = Counter(line.split()[0] for line in (folder / "effects").read_text().splitlines())
    assert set(effects) == runs
    assert max(effects.values()) <= 2, "one kill explains one repeat of the inner step, not more"


@pytest.mark.slow
@pytest.mark.req("M3", "M9", "R2", "K24", "K25")
def test_sqlite_machine_survives_a_kill_at_every_failpoint(tmp_path: Path) -> None:
    play([str(tmp_path / f"{n}.db") for n in range(len(POINTS))], tmp_path)


@pytest.mark.slow
@pytest.mark.req("M3", "M9", "R2", "K24", "K25")
def test_postgres_machine_survives_a_kill_at_every_failpoint(
    postgres_databases: Databases, tmp_path: Path
) -> None:
    database = postgres_databases.create()

    play([f"{database}?schema=machine{n}" for n in range(len(POINTS))], tmp_path)

    postgres_databases.drop(database)
