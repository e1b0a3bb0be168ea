"""Workers of the demo: processes of their own, one of which can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stepwell.demo.workflows import FOLDER

LEASE_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Killed:
    pid: int
    at: float


class DemoWorkers:
    def __init__(
        self, database: str, folder: Path, count: int = 2, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._database, self._folder, self._count, self._clock = database, folder, count, clock
        self._processes: list[subprocess.Popen[bytes]] = []
        self.killed: list[Killed] = []

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes if process.poll() is None]

    def start(self) -> None:
        while len(self.pids) < self._count:
            self._processes.append(self._spawn())

    def kill(self, pid: int) -> bool:
        """Send SIGKILL to a worker, and start another one as a supervisor would. False: it is not ours."""
        process = next((each for each in self._processes if each.pid == pid and each.poll() is None), None)
        if process is None:
            return False
        process.kill()
        process.wait()
        self.killed.append(Killed(pid, self._clock()))
        self.start()
        return True

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "stepwell", "worker", "stepwell.demo.workflows"]
        return subprocess.Popen(
            [*command, "--database", self._database],
            env={
                **os.environ,
                FOLDER: str(self._folder),
                "STEPWELL_LEASE_SECONDS": str(LEASE_SECONDS),
                "STEPWELL_HEARTBEAT_SECONDS": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the demo, which then stops them in order
        )
