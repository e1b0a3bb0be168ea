"""`stepwell demo`: real processes, one of which is killed, and a run that goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

_LIMIT = 60.0  # seconds for anything to happen


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[httpx.Client]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "stepwell", "demo", "--folder", str(tmp_path), "--port", "0"),
            *("--no-open", "--history", "0"),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        said = process.stderr.readline() + process.stderr.readline()
        address = re.search(r"open +(http://\S+)/\?t=(\S+)", said)
        assert address, said
        with httpx.Client(base_url=address[1], headers={"Authorization": f"Bearer {address[2]}"}) as client:
            yield client
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0


def until(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + _LIMIT
    while not (seen := look()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)
    return seen


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.req("D5")
def test_a_killed_worker_of_the_demo_costs_nothing(demo: httpx.Client, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.txt"
    until(lambda: ledger.exists() and "render_page 2" in ledger.read_text())
    shown = demo.get("/api/v1/demo").json()
    events = f"/api/v1/runs/{shown['run']}/events?limit=1000"

    def owner() -> str:
        claims = [event for event in demo.get(events).json()["events"] if event["kind"] == "claimed"]
        worker: str = claims[-1]["data"]["worker"]
        return worker

    killed = owner()
    finished = [
        event["data"]["result"].removeprefix("page-").removesuffix(".pdf")
        for event in demo.get(events).json()["events"]
        if event["kind"] == "step_completed" and "render_page" in event["path"]
    ]
    pid = next(worker["pid"] for worker in shown["workers"] if worker["id"] == killed)
    assert alive(pid)
    answer = demo.post("/api/v1/demo/kill", json={"worker": killed})
    assert answer.json()["killed_pid"] == pid
    assert not alive(pid)
    lines = len(ledger.read_text().splitlines())
    until(lambda: owner() != killed and len(ledger.read_text().splitlines()) > lines + 1)

    done = [line.split(" ", 1) for line in ledger.read_text().splitlines()]
    times = Counter(what for _, what in done)
    assert len({process for process, _ in done}) >= 2, "another process went on"
    assert finished
    assert [page for page in finished if times[f"render_page {page}"] != 1] == [], "it ran again"
    assert demo.post("/api/v1/demo/kill", json={"worker": killed}).status_code == 404
