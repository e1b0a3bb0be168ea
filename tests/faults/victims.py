"""Victims: processes that are each killed at a failpoint, a few per database; then a clean one continues.

    python -m tests.faults.victims MODULE    the clean one: plans on stdin; prints stuck runs

MODULE has `visit(url, *plan)`, the whole script that a victim may die in, and `finish(url, plans)`. The
victims of a database have a queue each.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.fleet import ROOT, SHORT
from tests.faults.forks import KILLED, Life, lived

FINISHED_AT_ONCE = 10  # databases; a server accepts a hundred connections
FINISH_SECONDS = 120.0
LEASE = {
    **SHORT,
    "STEPWELL_HEARTBEAT_SECONDS": "0.25",
    "STEPWELL_SWEEP_SECONDS": "0.25",
    "STEPWELL_KEEP_LEASE_SECONDS": "0.001",  # every wait parks
}


class Plan(NamedTuple):
    """Where one process is killed: at that hit of a failpoint."""

    point: str
    hit: int
    number: int = 0
    before: str = ""  # a failpoint at which another one is killed first

    @property
    def queue(self) -> str:
        return f"q{self.number}"

    @property
    def name(self) -> str:
        return f"{self.point}:{self.hit}"


class Victims:
    """The victims of one script, from outside."""

    def __init__(self, module: str, folder: Path, **env: str) -> None:
        self._module = module
        self._log = folder / "victims.log"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("STEPWELL_")}
        self._env = {**inherited, **LEASE, **env, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}

    def kill(self, wanted: list[tuple[str, Plan]]) -> None:
        deaths = lived([self._lives(url, plan) for url, plan in wanted], self._env, self._log)

        unreached = [plan.name for (_, plan), end in zip(wanted, deaths, strict=True) if end.code != KILLED]
        assert unreached == [], f"never reached, or broken before: {self._log.read_text()[-3000:]}"

    def _lives(self, url: str, plan: Plan) -> list[Life]:
        plans = [Plan(plan.before, 1, plan.number), plan] if plan.before else [plan]
        return [Life(f"{self._module}:visit", [url, *p], f"{p.point}=kill:{p.hit}") for p in plans]

    def finish(self, wanted: list[tuple[str, Plan]]) -> None:
        with open(self._log, "a", encoding="utf-8") as errors:
            done = subprocess.run(
                [sys.executable, "-m", "tests.faults.victims", self._module],
                env=self._env,
                cwd=ROOT,
                input=json.dumps(wanted),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                check=True,
            )
        assert done.stdout == "", f"{done.stdout}\n{self._log.read_text()[-3000:]}"


async def finish_all(module: Any, wanted: list[tuple[str, Plan]]) -> None:
    turns = asyncio.Semaphore(FINISHED_AT_ONCE)

    async def finish(url: str) -> None:
        async with turns, asyncio.timeout(FINISH_SECONDS):
            await module.finish(url, [plan for where, plan in wanted if where == url])

    urls = sorted({url for url, _ in wanted})
    done = await asyncio.gather(*(finish(url) for url in urls), return_exceptions=True)
    for url, error in zip(urls, done, strict=True):
        if error is not None:
            print("stuck", url, repr(error))


def main(name: str) -> None:
    wanted = [(url, Plan(*plan)) for url, plan in json.load(sys.stdin)]
    asyncio.run(finish_all(importlib.import_module(name), wanted))


if __name__ == "__main__":
    main(*sys.argv[1:])
