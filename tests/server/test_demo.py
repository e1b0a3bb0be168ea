"""`stepwell demo`: real processes, one of which is killed, and an order that goes on."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import httpx
import pytest

from tests.demo_process import alive, running_demo, until


@pytest.mark.slow
@pytest.mark.req("D5")
def test_a_terminal_without_a_browser_tells_the_story_and_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    with running_demo(tmp_path / "demo") as demo, demo.client() as client:
        assert "No browser was found" in demo.said
        pid = int(until(lambda: re.search(r"kill -9 (\d+) is what", demo.said))[1])
        until(lambda: [line for line in demo.ledger if "order-8842 pack_box" in line[1]])
        finished = [what for _, what in demo.ledger]
        os.kill(pid, signal.SIGKILL)
        over = until(
            lambda: re.search(r"worker (\d+) took order-8842 over.* (\d+) completed steps", demo.said)
        )
        workers = until(lambda: [each for each in _workers(client) if each != pid])

        assert f"worker {pid} is dead" in demo.said
        assert int(over[1]) != pid
        assert int(over[2]) >= 3
        until(lambda: [line for line in demo.ledger if line[0] == over[1] and "order-8842" in line[1]])
        times = Counter(what for _, what in demo.ledger)
        assert [what for what in finished if times[what] != 1] == [], "it ran again"
        dead = next(
            worker for worker, each in client.get("/api/v1/demo").json()["pids"].items() if each == pid
        )
        assert client.post("/api/v1/demo/kill", json={"worker": dead}).status_code == 404
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(30) == 0
        assert "stopped; nothing was left half done" in demo.said
        assert "Traceback" not in demo.said
        assert [each for each in workers if alive(each)] == []


@pytest.mark.slow
def test_workers_end_with_a_demo_that_is_killed(tmp_path: Path) -> None:
    with running_demo(tmp_path / "demo") as demo, demo.client() as client:
        workers = until(lambda: len(found := _workers(client)) == 2 and found)
        demo.stop(signal.SIGKILL)

        until(lambda: not [each for each in workers if alive(each)])


@pytest.mark.slow
def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "stepwell", "demo", "--folder", str(tmp_path), "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode != 0
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def _workers(client: httpx.Client) -> list[int]:
    return [each["pid"] for each in client.get("/api/v1/demo").json()["workers"] if each["alive"]]
