"""Victims: processes that are killed at a failpoint each, a few to a database; then a clean one goes on.

    python -m tests.faults.victims MODULE kill      plans on stdin, their exit codes on stdout, as JSON
    python -m tests.faults.victims MODULE finish    the same plans; prints the databases that are stuck

MODULE has `visit(url, plan)`, the whole script that a victim may die in, and `finish(url, plans)`. The
victims of a database have a queue each. A victim is a fork of a process that has imported everything and
begun nothing: it costs no start of an interpreter.
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

from stepwell import failpoints
from tests.faults.fleet import ROOT, SHORT

KILLED = -9
AT_ONCE = 8
FINISHED_AT_ONCE = 10  # databases; a server takes a hundred connections
VISIT_SECONDS = 60.0
FINISH_SECONDS = 120.0
LEASE = {
    **SHORT,
    "STEPWELL_HEARTBEAT_SECONDS": "0.25",
    "STEPWELL_SWEEP_SECONDS": "0.25",
    "STEPWELL_KEEP_LEASE_SECONDS": "0.001",  # whatever waits, parks
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
        codes = json.loads(self._say("kill", wanted))

        unreached = [plan.name for (_, plan), code in zip(wanted, codes, strict=True) if code != KILLED]
        assert unreached == [], f"never reached, or broken before: {self._log.read_text()[-3000:]}"

    def finish(self, wanted: list[tuple[str, Plan]]) -> None:
        said = self._say("finish", wanted)

        assert said == "", f"{said}\n{self._log.read_text()[-3000:]}"

    def _say(self, what: str, wanted: list[tuple[str, Plan]]) -> str:
        with open(self._log, "a", encoding="utf-8") as errors:
            done = subprocess.run(
                [sys.executable, "-m", "tests.faults.victims", self._module, what],
                env=self._env,
                cwd=ROOT,
                input=json.dumps(wanted),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                check=True,
            )
        return done.stdout


def _fork(module: Any, url: str, plan: Plan) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            failpoints.hit = failpoints.parse(f"{plan.point}=kill:{plan.hit}")
            asyncio.run(asyncio.wait_for(module.visit(url, plan), VISIT_SECONDS))
            code = 0
        finally:
            sys.stderr.write(f"{plan.name}: not killed, {sys.exc_info()[1]!r}\n")
            sys.stderr.flush()
            os._exit(code)
    return pid


def kill_all(module: Any, wanted: list[tuple[str, Plan]]) -> list[int]:
    """Their exit codes, a few at a time."""
    waiting = list(enumerate(wanted))[::-1]
    codes = [0] * len(wanted)
    running: dict[int, tuple[int, str, Plan, bool]] = {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            place, (url, plan) = waiting.pop()
            first = Plan(plan.before, 1, plan.number) if plan.before else plan
            running[_fork(module, url, first)] = (place, url, plan, first is plan)
        pid, status = os.wait()
        place, url, plan, last = running.pop(pid)
        if last:
            codes[place] = os.waitstatus_to_exitcode(status)
        else:
            running[_fork(module, url, plan)] = (place, url, plan, True)
    return codes


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


def main(name: str, what: str) -> None:
    module = importlib.import_module(name)
    wanted = [(url, Plan(*plan)) for url, plan in json.load(sys.stdin)]
    if what == "kill":
        print(json.dumps(kill_all(module, wanted)))
    else:
        asyncio.run(finish_all(module, wanted))


if __name__ == "__main__":
    main(*sys.argv[1:])
