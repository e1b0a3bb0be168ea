"""Fleet: the processes of one test. Starts workers, kills and freezes them, and records it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.faults.ledger_client import PORT_VARIABLE
from tests.faults.worker_main import IDENTITIES_VARIABLE
from tests.faults.workload import STORE_VARIABLE
from tools.postgres import processes

ROOT = Path(__file__).parents[2]
END_SECONDS = 60.0

LEASE_SECONDS = 2.0
SWEEP_SECONDS = 0.5
SHORT = {
    "STEPWELL_LEASE_SECONDS": str(LEASE_SECONDS),
    "STEPWELL_HEARTBEAT_SECONDS": "0.5",
    "STEPWELL_REAP_SECONDS": str(SWEEP_SECONDS),
    "STEPWELL_POLL_SECONDS": "1",
    "STEPWELL_GRACE_SECONDS": "10",
    "STEPWELL_KEEP_LEASE_SECONDS": "0.5",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault injected into a process (pid 0: the database) from one moment to another."""

    kind: str  # kill | freeze | database
    pid: int
    at: int  # monotonic ns
    until: int


class Worker:
    """One worker process."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log
        self.pid = process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


class Fleet:
    def __init__(self, url: str, folder: Path, *, ledger: int = 0, module: str = "") -> None:
        self.url = url
        self.folder = folder
        self.workers: list[Worker] = []
        self.faults: list[Fault] = []
        self._module = module
        self._identities = folder / "identities"
        self._identities.touch()
        self._count = 0
        self.env = worker_env(url, ledger, self._identities)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def start(self, **env: str) -> Worker:
        self._count += 1
        log = self.folder / f"worker{self._count}.log"
        command = [sys.executable, "-m", "tests.faults.worker_main", self.url]
        if self._module:
            command.append(self._module)
        with open(log, "wb") as out:
            process = subprocess.Popen(
                command, env={**self.env, **env}, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        worker = Worker(process, log)
        self.workers.append(worker)
        return worker

    def kill(self, worker: Worker) -> Fault:
        """Send kill -9, and wait for the process."""
        now = time.monotonic_ns()
        worker.process.kill()
        worker.process.wait(END_SECONDS)
        self.workers.remove(worker)
        return self.note("kill", worker.pid, now)

    @contextmanager
    def frozen(self, worker: Worker) -> Iterator[None]:
        now = time.monotonic_ns()
        worker.process.send_signal(signal.SIGSTOP)
        yield
        worker.process.send_signal(signal.SIGCONT)
        self.note("freeze", worker.pid, now)

    def busiest(self, ledger: LedgerProcess) -> Worker:
        """The worker that began most of the last effects."""
        *whole, _ = ledger.file.read_bytes().split(b"\n")  # the last may be half written
        pids = [json.loads(line)["pid"] for line in whole[-60:]]
        return max(self.workers, key=lambda worker: pids.count(worker.pid))

    def stop(self, worker: Worker) -> int:
        """Send SIGTERM; returns the exit code."""
        worker.process.send_signal(signal.SIGTERM)
        code = worker.process.wait(END_SECONDS)
        self.workers.remove(worker)
        return code

    def note(self, kind: str, pid: int, since: int) -> Fault:
        fault = Fault(kind, pid, since, time.monotonic_ns())
        self.faults.append(fault)
        return fault

    def find_dead(self) -> list[Worker]:
        """Workers that ended without being killed."""
        return [worker for worker in self.workers if not worker.alive]

    def identities(self) -> dict[str, int]:
        """Worker id -> process."""
        lines = self._identities.read_text(encoding="ascii").splitlines()
        return {worker: int(pid) for pid, worker in (line.split() for line in lines)}

    def ready(self, worker: Worker, seconds: float = 60.0) -> None:
        """Wait until this worker is registered."""
        deadline = time.monotonic() + seconds
        while worker.pid not in self.identities().values():
            assert worker.alive, worker.log.read_text()
            assert time.monotonic() < deadline, f"worker {worker.pid} is not ready"
            time.sleep(0.02)

    def logs(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("worker*.log")))

    def end(self) -> None:
        """Assert that nothing we started is left."""
        for worker in self.workers:
            children = processes.children(worker.pid)
            worker.process.kill()
            worker.process.wait(END_SECONDS)
            assert not [pid for pid in children if _lives_on(pid)], "a worker left children behind"
        self.workers.clear()


def worker_env(url: str, ledger: int, identities: Path) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("STEPWELL_")}
    return {
        **inherited,
        **SHORT,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "PYTHONUNBUFFERED": "1",
        PORT_VARIABLE: str(ledger),
        IDENTITIES_VARIABLE: str(identities),
        STORE_VARIABLE: "postgres" if url.startswith("postgres") else "sqlite",
    }


def _lives_on(pid: int, seconds: float = 2.0) -> bool:
    deadline = time.monotonic() + seconds
    while processes.running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return processes.running(pid)


class LedgerProcess:
    """The ledger as its own process; `rows` reads what it has on disk."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "ledger"
        env: Mapping[str, str] = {k: v for k, v in os.environ.items() if not k.startswith("STEPWELL_")}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("ledger.py")), str(self.file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=END_SECONDS)
