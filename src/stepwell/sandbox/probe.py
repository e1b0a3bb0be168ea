"""The probe: what code could reach if it broke out of its interpreter. It is tried, not assumed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from stepwell.sandbox.jail import jailed
from stepwell.sandbox.pool import FORBIDDEN_CALL

_CHILD = Path(__file__).with_name("probe_child.py")
_SECONDS = 20.0
_FILES = ("/etc/passwd", "/etc/hostname", "/proc/1/environ", "/proc/self/mem", "/proc")
_FOLDERS = ("/usr", "/var/tmp", "/")


class Reach(NamedTuple):
    """Which of files, network, processes and environment the probe reached."""

    parts: tuple[str, ...]

    @property
    def safe(self) -> bool:
        return not self.parts


_UNKNOWN = Reach(("what it may reach could not be tried",))


class SandboxProbe:
    """Tries once per process. Later callers get the same answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reach: Reach | None = None

    async def reach(self) -> Reach:
        return await asyncio.to_thread(self.tried) if self._reach is None else self._reach

    def tried(self) -> Reach:
        """Return the same, blocking until it is known."""
        with self._lock:
            if self._reach is None:
                self._reach = _tried()
            return self._reach


PROBE = SandboxProbe()


def _tried() -> Reach:
    with _listening() as port, _abstract() as name, tempfile.NamedTemporaryFile() as own:
        own.write(b"probe")
        own.flush()
        aims = {
            "files": [own.name, *_FILES],
            "folders": _FOLDERS,
            "port": port,
            "abstract": name,
            "pid": os.getpid(),
        }
        try:
            done = subprocess.run(
                jailed([sys.executable, "-I", "-S", str(_CHILD), json.dumps(aims)]),
                capture_output=True,
                env={},
                cwd="/",
                timeout=_SECONDS,
                check=False,
            )
            if done.returncode and done.returncode not in FORBIDDEN_CALL:
                return _UNKNOWN
            reached = {part for line in done.stdout.splitlines() for part in json.loads(line)}
            return Reach(tuple(sorted(reached))) if done.stdout else _UNKNOWN
        except (OSError, subprocess.SubprocessError, ValueError):
            return _UNKNOWN


@contextlib.contextmanager
def _listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextlib.contextmanager
def _abstract() -> Iterator[str]:
    """Listen on a name outside the file system, which only a separate network namespace hides."""
    name = f"stepwell-probe-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as server:
        with contextlib.suppress(OSError):  # this system has no such names
            server.bind("\0" + name)
            server.listen(1)
        yield name
