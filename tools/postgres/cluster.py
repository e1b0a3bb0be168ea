"""One private PostgreSQL cluster in a temporary folder, durable like a real one, on Linux.

    with Cluster() as cluster:
        url = cluster.databases.create()
        cluster.kill()                      # like a power cut for its processes
        cluster.start()                     # the same URL works again

It listens on 127.0.0.1 only and is removed at the end, also when this process is killed (`warden.py`).
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

from tools.disk import disk_folder
from tools.postgres import account, binaries, processes, warden
from tools.postgres.databases import Databases

READY_SECONDS = 60.0  # recovery after a kill included
STOP_SECONDS = 30.0
POLL_SECONDS = 0.02
PORT_ATTEMPTS = 5
LOG_TAIL_LINES = 15

# Durable, as in production. Everything else is PostgreSQL's default.
SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "fsync": "on",
        "synchronous_commit": "on",
        "listen_addresses": "127.0.0.1",
        "max_connections": "200",
        "dynamic_shared_memory_type": "mmap",  # inside the folder: a kill leaves nothing elsewhere
    }
)


class Cluster:
    """Starts at `start` or `with`. `stop` and `kill` keep the data, `close` removes everything."""

    def __init__(self, *, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self._settings = {**SETTINGS, **settings}
        self._account = account.choose()
        self._folder: Path | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._warden: subprocess.Popen[str] | None = None
        self._port = 0
        self._programs = Path()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def databases(self) -> Databases:
        return Databases(self.url())

    @property
    def pid(self) -> int:
        """Of the server's first process."""
        assert self._server is not None, "the cluster is not running"
        return self._server.pid

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/{database}"

    def start(self) -> None:
        """Returns when connections are accepted. The port stays the same from the first start on."""
        if self._server is not None:
            return
        if self._folder is None:
            self._prepare()
        attempts = 1 if self._port else PORT_ATTEMPTS
        for attempt in range(1, attempts + 1):
            port = self._port or _free_port()
            try:
                self._launch(port)
            except RuntimeError:
                if attempt == attempts:
                    raise
            else:
                self._port = port
                return

    def stop(self) -> None:
        """A clean shutdown that does not wait for clients."""
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)
            self._server.wait(STOP_SECONDS)
            self._server = None

    def kill(self) -> None:
        """kill -9 for the server and all its children; returns when none of them runs."""
        if self._server is None:
            return
        # Stopped first, so that it neither starts a child nor tells the others while they are listed.
        self._server.send_signal(signal.SIGSTOP)
        everyone = [self._server.pid, *processes.children(self._server.pid)]
        for pid in everyone:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._server.wait(STOP_SECONDS)
        self._server = None
        deadline = time.monotonic() + STOP_SECONDS
        while any(processes.running(pid) for pid in everyone):
            assert time.monotonic() < deadline, "a killed PostgreSQL process does not go away"
            time.sleep(POLL_SECONDS)

    def close(self) -> None:
        """Stops the server and removes its folder. May be called again."""
        atexit.unregister(self.close)
        try:
            self.stop()
        finally:
            if self._warden is not None:
                self._warden.communicate()  # the end of its input: it removes what is left
                self._warden = None
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None
            self._port = 0

    def _prepare(self) -> None:
        programs = binaries.find(self._account)
        folder = Path(tempfile.mkdtemp(prefix="stepwell-pg-", dir=disk_folder()))
        self._folder, self._programs = folder, programs
        self._account.own(folder)
        atexit.register(self.close)
        self._warden = subprocess.Popen(
            [sys.executable, "-I", "-S", warden.__file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for us; we end the others in order
        )
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(
            [programs / "initdb", "-D", folder / "data", *options],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            user=self._account.uid,
            group=self._account.gid,
            extra_groups=self._account.groups,
        )
        if made.returncode != 0:
            self.close()
            raise RuntimeError(f"initdb failed: {made.stderr.strip()}")

    def _launch(self, port: int) -> None:
        assert self._folder is not None
        assert self._warden is not None
        assert self._warden.stdin is not None
        assert self._warden.stdout is not None
        settings = {**self._settings, "port": str(port), "unix_socket_directories": str(self._folder)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(self._folder / "log", "ab") as log:
            self._server = subprocess.Popen(
                [self._programs / "postgres", "-D", self._folder / "data", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,
                user=self._account.uid,
                group=self._account.gid,
                extra_groups=self._account.groups,
            )
        self._warden.stdin.write(f"{self._server.pid}\n")
        self._warden.stdin.flush()
        self._warden.stdout.readline()
        self._wait_ready()

    def _wait_ready(self) -> None:
        assert self._server is not None
        deadline = time.monotonic() + READY_SECONDS
        while not self._ready():
            if self._server.poll() is not None:
                self._server = None
                raise RuntimeError(f"PostgreSQL did not start:\n{self._log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"PostgreSQL is not ready after {READY_SECONDS} s:\n{self._log_tail()}")
            time.sleep(POLL_SECONDS)

    def _ready(self) -> bool:
        """As pg_ctl asks: the eighth line of postmaster.pid, if that file is of this start."""
        assert self._server is not None
        assert self._folder is not None
        try:
            lines = (self._folder / "data" / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self._server.pid) and lines[7].strip() == "ready"

    def _log_tail(self) -> str:
        assert self._folder is not None
        lines = (self._folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
