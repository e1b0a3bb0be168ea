"""Servers in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class ServerProcess:
    """A server that can be killed and started again at the same address."""

    def __init__(self, database: object, *, works: bool = False) -> None:
        self._command = [sys.executable, "-m", "tests.http_client.server_main", str(database)]
        self._works = works
        self._port = 0
        self.url = ""
        self.start()

    def start(self) -> None:
        """Start it and wait until it listens."""
        command = [*self._command, str(self._port), *(["--work"] if self._works else [])]
        root = Path(__file__).parents[2]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self._port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """End it without a farewell (SIGKILL)."""
        self.process.kill()
        self.process.communicate()

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=60)


@contextmanager
def serving(database: object, *, works: bool = True) -> Iterator[tuple[str, ServerProcess]]:
    server = ServerProcess(database, works=works)
    try:
        yield server.url, server
    finally:
        server.stop()
