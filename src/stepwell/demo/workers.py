"""Workers of the demo: separate processes, each of which can be killed."""

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
_STOP_SECONDS = 10.0
_RESTART_SECONDS = 3.0  # as supervisors do; the other worker may take over earlier


@dataclass(frozen=True, slots=True)
class Killed:
    pid: int
    at: float


class DemoWorkers:
    """Starts workers, and replaces each that dies, as a supervisor would."""

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
        while len(self._processes) < self._count:
            self._processes.append(self._spawn())

    def kill(self, pid: int) -> bool:
        """Send SIGKILL to a worker. False if it is not a worker of this demo, or already dead."""
        process = next((each for each in self._processes if each.pid == pid and each.poll() is None), None)
        if process is None:
            return False
        process.kill()
        process.wait()
        self.replace_dead()
        return True

    def replace_dead(self) -> None:
        """Note which workers died, also by a kill from a terminal, and start others soon after."""
        now = self._clock()
        for process in [each for each in self._processes if each.poll() is not None]:
            self._close(process)
            self._processes.remove(process)
            self.killed.append(Killed(process.pid, now))
        if not self.killed or now - self.killed[-1].at >= _RESTART_SECONDS:
            self.start()

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
        until = time.monotonic() + _STOP_SECONDS
        for process in self._processes:
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._close(process)

    def _spawn(self) -> subprocess.Popen[bytes]:
        with (self._folder / "workers.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "stepwell.demo.worker", self._database],
                env={
                    **os.environ,
                    FOLDER: str(self._folder),
                    "STEPWELL_LEASE_SECONDS": str(LEASE_SECONDS),
                    "STEPWELL_HEARTBEAT_SECONDS": "1",
                },
                stdin=subprocess.PIPE,  # the worker ends when this pipe closes
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # only the demo gets Ctrl-C; it then stops the workers in order
            )

    @staticmethod
    def _close(process: subprocess.Popen[bytes]) -> None:
        if process.stdin is not None:
            process.stdin.close()
