"""The program of the probe: tries, where untrusted code would run, what that code must never reach.

It is started by its path, with its targets as JSON, and prints what it reached, one list a line. It harms
nothing: it opens, connects, asks whether a process exists, and last starts one.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from functools import partial

sys.path.insert(0, os.path.dirname(__file__))
import confinement  # type: ignore[import-not-found]  # the module beside this file


def main() -> None:
    aims = json.loads(sys.argv[1])
    confinement.confine()
    attempts: dict[str, list[Callable[[], object]]] = {
        "files": [
            *(partial(os.open, path, os.O_RDONLY) for path in aims["files"]),
            *(partial(_writable, folder) for folder in aims["folders"]),
        ],
        "network": [
            lambda: socket.create_connection(("127.0.0.1", aims["port"]), 2),
            lambda: _unix("\0" + aims["abstract"]),
            _outside,
        ],
        "processes": [lambda: os.kill(aims["pid"], 0)],
        "environment": [_environment],
    }
    reached = [name for name, tries in attempts.items() if any(_succeeds(each) for each in tries)]
    print(json.dumps(reached), flush=True)
    if _succeeds(_forked):  # last: the kernel kills a process that tries it
        print(json.dumps(["processes"]))


def _succeeds(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def _writable(folder: str) -> None:
    if not os.access(folder, os.W_OK):
        raise PermissionError(folder)


def _environment() -> None:
    if not os.environ.keys() - {"LC_CTYPE", "PWD"}:  # set by the interpreter and the jail
        raise FileNotFoundError


def _unix(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as there:
        there.connect(name)


def _outside() -> None:
    """Look for a route to a public address. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
        there.connect(("192.0.2.1", 9))


def _forked() -> None:
    if os.fork() == 0:
        os._exit(0)


if __name__ == "__main__":
    main()
