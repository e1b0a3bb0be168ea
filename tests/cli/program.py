"""The program in a process of its own, with pipes or in a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

PROGRAM = [sys.executable, "-m", "stepwell"]


def run(
    *arguments: str, folder: Path, stdin: str | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the program to its end, as a script does."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=folder,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**_environment(), **(env or {})},
    )


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STEPWELL_")}
    kept.pop("NO_COLOR", None)
    return {**kept, "TERM": "xterm-256color", "COLUMNS": ""} | {"LANG": "C.UTF-8"}


class Terminal:
    """The program in a terminal of a given width, as a person sees it."""

    def __init__(
        self, *arguments: str, folder: Path, width: int = 80, command: list[str] | None = None
    ) -> None:
        self._main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        environment = _environment()
        del environment["COLUMNS"]
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [*(PROGRAM if command is None else command), *arguments],
            cwd=folder,
            stdin=side,
            stdout=side,
            stderr=side,
            env=environment,
            start_new_session=True,
        )
        os.close(side)
        self.text = ""
        self.first: float | None = None  # seconds until the first output

    def read(self, until: str = "", seconds: float = 60) -> str:
        """Read until a text appears, or to the end."""
        limit = time.perf_counter() + seconds
        while (not until or until not in self.text) and time.perf_counter() < limit:
            ready, _, _ = select.select([self._main], [], [], 0.2)
            if not ready:
                continue
            try:
                data = os.read(self._main, 65536)
            except OSError:  # Linux: the other side is closed
                break
            if not data:
                break
            if self.first is None:
                self.first = time.perf_counter() - self.began
            self.text += data.decode(errors="replace")
        assert not until or until in self.text, self.text
        return self.text

    def interrupt(self) -> None:
        """Send what Ctrl-C sends."""
        self.process.send_signal(signal.SIGINT)

    def write(self, text: str) -> None:
        os.write(self._main, text.encode())

    def end(self) -> int:
        self.read()
        code = self.process.wait(60)
        os.close(self._main)
        return code
