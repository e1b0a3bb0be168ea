"""Forks: run a script many times without starting an interpreter for each.

    python -m tests.faults.forks            lives on stdin, their ends on stdout, as JSON

Each life is a fork of this process, which has imported everything and begun nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stepwell import failpoints
from tests.faults.fleet import ROOT

KILLED = -9
LIFE_SECONDS = 60
AT_ONCE = 6  # most of the time they wait
DRIVERS = ("stepwell.store.sqlite.store", "stepwell.store.postgres.store")  # otherwise imported on first use


class Life(NamedTuple):
    """What to run, where it is killed, and the file for its output."""

    script: str  # an async function: "tests.faults.all_transactions:main"
    arguments: list[Any]
    failpoint: str
    said: str = os.devnull
    env: dict[str, str] = {}  # noqa: RUF012  # never changed


class Death(NamedTuple):
    code: int
    pid: int
    since: int  # monotonic ns
    until: int


def lived(lives: Sequence[Sequence[Life]], env: Mapping[str, str], log: Path) -> list[Death]:
    """Run the lives of each database one after another; returns the death of the last one of each."""
    with open(log, "ab") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.forks"],
            env=env,
            cwd=ROOT,
            input=json.dumps(lives).encode(),
            stdout=subprocess.PIPE,
            stderr=errors,
            check=True,
        )
    return [Death(*death) for death in json.loads(done.stdout)]


def begin(life: Life) -> int:
    """The new process; an alarm ends it if nothing else does."""
    pid = os.fork()
    if pid:
        return pid
    try:
        module, _, name = life.script.partition(":")
        signal.alarm(LIFE_SECONDS)
        os.dup2(os.open(life.said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
        os.environ.update(life.env)
        failpoints.hit = failpoints.parse(life.failpoint)
        asyncio.run(getattr(sys.modules[module], name)(*life.arguments))
    finally:
        print(f"{life.failpoint} was not reached, {sys.exc_info()[1]!r}", file=sys.stderr, flush=True)
        os._exit(1)


def run(lives: Sequence[Sequence[Life]]) -> list[Death]:
    deaths: dict[int, Death] = {}
    waiting = list(enumerate(lives))
    running: dict[int, tuple[int, Sequence[Life], int]] = {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            place, rest = waiting.pop(0)
            since = time.monotonic_ns()
            running[begin(rest[0])] = (place, rest[1:], since)
        pid, status = os.wait()
        place, rest, since = running.pop(pid)
        if rest:
            waiting.insert(0, (place, rest))
        else:
            deaths[place] = Death(os.waitstatus_to_exitcode(status), pid, since, time.monotonic_ns())
    return [deaths[place] for place in range(len(lives))]


def main() -> None:
    lives = [[Life(*life) for life in some] for some in json.load(sys.stdin)]
    scripts = {life.script.partition(":")[0] for some in lives for life in some}
    for name in (*DRIVERS, *scripts):
        importlib.import_module(name)
    print(json.dumps(run(lives)))


if __name__ == "__main__":
    main()
