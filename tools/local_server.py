"""A server and workers of this machine, each a process of its own: to look at, to stop and to kill."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx

TOKEN = "token-of-a-local-server"
SECRETS_KEY = "local:" + base64.b64encode(b"a key of a local server, 32 byte").decode()
_PATIENCE = 60.0  # seconds


class LocalServer:
    """`stepwell serve` on one port, also when it is started again, and `stepwell worker` beside it."""

    def __init__(self, folder: Path, flows: str, *, lease: float = 3.0) -> None:
        self.folder, self._flows = folder, flows
        self.database = str(folder / "runs.db")
        self.workers: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            "STEPWELL_LAUNCH_TOKEN": TOKEN,
            "STEPWELL_SECRETS_KEY": SECRETS_KEY,
            "STEPWELL_LEASE_SECONDS": str(lease),
            "STEPWELL_HEARTBEAT_SECONDS": str(lease / 4),
        }
        self._port = free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def open_url(self) -> str:
        """The address that signs a browser in."""
        return f"{self.url}/?t={TOKEN}"

    def __enter__(self) -> Self:
        try:
            self.start_worker()
            until(Path(self.database).exists, "the first worker made the database")
            self.start()
            # A server knows workflows from its workers.
            until(lambda: bool(self.get("/workers")["workers"]), "a worker has registered itself")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.stop()
        for worker in self.workers:
            _end(worker)

    def start(self) -> None:
        self._process = subprocess.Popen(
            [*_STEPWELL, "serve", "--database", self.database, "--port", str(self._port)],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        said = ""
        while not re.search(r"API +http", said):
            line = self._process.stderr.readline()
            if not line:
                raise RuntimeError(f"the server did not start: {said}")
            said += line
        # A full pipe would stop the server.
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    def stop(self) -> None:
        if self._process is not None:
            _end(self._process)
            self._process = None

    def start_worker(self, *options: str) -> subprocess.Popen[bytes]:
        worker = subprocess.Popen(
            [*_STEPWELL, "worker", self._flows, "--database", self.database, *options],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.workers.append(worker)
        return worker

    def kill_worker_of(self, run: str) -> tuple[str, int]:
        """Send SIGKILL to the worker that has a run; return its id and pid once it is gone."""
        owner = self.owner_of(run)
        name = next(each["name"] for each in self.get("/workers")["workers"] if each["id"] == owner)
        pid = int(name.rpartition(":")[2])
        worker = next(each for each in self.workers if each.pid == pid)
        worker.kill()
        worker.wait()
        return owner, pid

    def owner_of(self, run: str) -> str:
        """Return the id of the worker that claimed a run last."""
        claims = [event["data"]["worker"] for event in self.events(run) if event["kind"] == "claimed"]
        return str(claims[-1])

    def get(self, path: str) -> Any:
        return self._answer(httpx.get(f"{self.url}/api/v1{path}", headers=_HEADERS, timeout=30))

    def post(self, path: str, body: object) -> Any:
        return self._answer(httpx.post(f"{self.url}/api/v1{path}", json=body, headers=_HEADERS, timeout=30))

    def put(self, path: str, body: object) -> Any:
        return self._answer(httpx.put(f"{self.url}/api/v1{path}", json=body, headers=_HEADERS, timeout=30))

    def begin(self, workflow: str, input: object, **more: object) -> str:
        """Start a run as a program does, and return its id."""
        return str(self.post("/runs", {"workflow": workflow, "input": input, **more})["id"])

    def key(self, name: str, *scopes: str, workspace: str = "default", role: str = "") -> str:
        """Make a key for a person, and return its text."""
        options = [option for scope in scopes for option in ("--scope", scope)]
        options += ["--role", role] if role else []
        command = [*_STEPWELL, "keys", "create", name, "--person", *options, "--json"]
        command += ["--database", self.database, "--workspace", workspace]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
        return str(json.loads(said.stdout)["secret"])

    def link(self, run: str, who: str, **more: object) -> str:
        """Make a link with which one person decides the open approval of a run."""
        made = self.post(f"/runs/{run}/links", {"assignee": who, **more})
        return f"{self.url}{made['url']}"

    def run(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/runs/{run}")
        return found

    def events(self, run: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        more = True
        while more:
            page = self.get(f"/runs/{run}/events?after={found[-1]['seq'] if found else 0}&limit=1000")
            found += page["events"]
            more = page["more"]
        return found

    def until_status(self, run: str, *statuses: str) -> None:
        until(lambda: self.run(run)["status"] in statuses, f"{run} is {' or '.join(statuses)}")

    @staticmethod
    def _answer(answer: httpx.Response) -> Any:
        if answer.is_error:
            raise RuntimeError(f"{answer.status_code} {answer.text}")
        return answer.json()


_STEPWELL = (sys.executable, "-m", "stepwell")
_HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def until(holds: Callable[[], bool], what: str, patience: float = _PATIENCE) -> None:
    """Look again and again until something holds."""
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {patience:g} s: {what}")
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _end(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stderr is not None:
        process.stderr.close()
