"""One private PgBouncer in transaction mode, in front of a private PostgreSQL, on Linux.

    with Pooler(find(), port) as pooler:
        url = pooler.url(cluster.databases.create())

Few connections to the server, so that clients must share them. It runs under the server's account, listens on
127.0.0.1 only and is gone at the end, also when this process is killed (`warden.py`).
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
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from tools.debian import install
from tools.postgres import account, warden
from tools.postgres.binaries import say

READY_SECONDS = 30.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.02
SERVER_CONNECTIONS = 3  # fewer than one worker has lanes

SETTINGS = """
[databases]
* = host=127.0.0.1 port={server}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 200
logfile = {folder}/log
pidfile = {folder}/pid
"""


def find() -> Path | None:
    """The program; gets it from the distribution when that is possible (only root can), else None."""
    return on_this_machine() or from_distribution()


def on_this_machine() -> Path | None:
    folders = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    program = shutil.which("pgbouncer", path=folders)
    return Path(program) if program else None


def from_distribution() -> Path | None:
    say("installing PgBouncer with apt-get")
    install("pgbouncer")
    return on_this_machine()


class Pooler:
    def __init__(self, program: Path, server_port: int, *, more_settings: str = "") -> None:
        self._program = program
        self._server_port = server_port
        self._more_settings = more_settings  # lines of its own section
        self._account = account.choose()
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._warden: subprocess.Popen[str] | None = None
        self._port = 0

    def __enter__(self) -> Self:
        atexit.register(self.close)
        folder = Path(tempfile.mkdtemp(prefix="stepwell-pooler-"))
        self._folder = folder
        self._port = _free_port()
        values = {"server": self._server_port, "port": self._port, "connections": SERVER_CONNECTIONS}
        text = SETTINGS.format(folder=folder, **values) + self._more_settings
        (folder / "settings").write_text(text, encoding="utf-8")
        (folder / "users").write_text('"postgres" ""\n', encoding="utf-8")
        for path in (folder, *folder.iterdir()):
            self._account.own(path)
        self._warden = subprocess.Popen(
            [sys.executable, "-I", "-S", warden.__file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._process = subprocess.Popen(
            [self._program, "--quiet", folder / "settings"],
            stdin=subprocess.DEVNULL,
            cwd=folder,
            start_new_session=True,
            user=self._account.uid,
            group=self._account.gid,
            extra_groups=self._account.groups,
        )
        assert self._warden.stdin is not None
        assert self._warden.stdout is not None
        self._warden.stdin.write(f"{self._process.pid}\n")
        self._warden.stdin.flush()
        self._warden.stdout.readline()
        self._wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, url: str) -> str:
        """The same database, through the pooler."""
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{self._port}"))

    def _wait_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1.0).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    assert self._folder is not None
                    log = self._folder / "log"
                    told = log.read_text(encoding="utf-8") if log.exists() else "it wrote no log"
                    self.close()
                    raise RuntimeError(f"PgBouncer did not start:\n{told}") from None
            time.sleep(POLL_SECONDS)

    def close(self) -> None:
        atexit.unregister(self.close)
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(STOP_SECONDS)
            self._process = None
        if self._warden is not None:
            self._warden.communicate()
            self._warden = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
