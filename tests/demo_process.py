"""`stepwell demo` as a process of its own, for the tests that look at it from outside."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

_LIMIT = 60.0  # seconds for anything to happen


class DemoProcess:
    """`stepwell demo` as a person starts it in a terminal without windows."""

    def __init__(self, folder: Path, *arguments: str, python: str = sys.executable) -> None:
        self.folder, self._said = folder, folder.with_suffix(".said")
        command = ["demo", "--folder", str(folder), "--port", "0", *(arguments or ("--history", "0"))]
        environment = {name: value for name, value in os.environ.items() if "DISPLAY" not in name}
        self.began = time.monotonic()
        with self._said.open("w") as said:
            self.process = subprocess.Popen(
                [python, "-m", "stepwell", *command], stderr=said, env=environment
            )
        address = until(lambda: re.search(r"open +(http://\S+)/\?t=(\S+)", self.said))
        self.url, self.token = address[1], address[2]

    @property
    def said(self) -> str:
        return self._said.read_text()

    @property
    def ledger(self) -> list[list[str]]:
        """Lines of what was really done: the process, and what it did."""
        file = self.folder / "ledger.txt"
        return [line.split(" ", 1) for line in file.read_text().splitlines()] if file.exists() else []

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.token}"})

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def running_demo(folder: Path, *arguments: str, python: str = sys.executable) -> Iterator[DemoProcess]:
    demo = DemoProcess(folder, *arguments, python=python)
    try:
        yield demo
    finally:
        if demo.process.poll() is None:
            demo.stop()


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
