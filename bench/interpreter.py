"""Interpreter: which Python the bench measures with.

How an interpreter was built moves every figure: one without profile-guided optimisation, as build tools make
it by default, runs the same code a third slower than what distributions and installers ship. So of those
with the same version of the language the fastest is taken, for Stepwell, the floor and the peers alike.

    python3 -m bench.interpreter FOLDER        an environment of it in FOLDER

Only the standard library: there is no environment yet.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROUNDS = 7
SAME_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
USUAL_FOLDERS = ("/usr/bin", "/usr/local/bin")

# What engines are made of: calls, attributes, small objects, dicts, coroutines.
TIMED = """
import json, os, sys, time

class Count:
    __slots__ = ("n",)
    def __init__(self, n):
        self.n = n
    def more(self, by):
        return Count(self.n + by)

async def turn(count):
    return count.more(1)

def work():
    seen, count = {}, Count(0)
    for number in range(60_000):
        try:
            turn(count).send(None)
        except StopIteration as end:
            count = end.value
        seen[number & 255] = (count.n, number)

best = 9.0
for _ in range(3):
    began = time.process_time()
    work()
    best = min(best, time.process_time() - began)
print(json.dumps([list(sys.version_info[:2]), os.path.realpath(sys.executable), best]))
"""


def interpreters() -> list[str]:
    """Commands of this version; several may be the same program."""
    folders = [*os.get_exec_path(), *USUAL_FOLDERS]
    named = [shutil.which(SAME_VERSION, path=folder) for folder in folders]
    return list(dict.fromkeys([sys.executable, *filter(None, named)]))


def by_speed(commands: Sequence[str]) -> list[tuple[float, str]]:
    """(seconds for the same piece of work, interpreter), the fastest first. What does not run, or is of
    another version, is left out. All are timed in turn: a slow moment of the machine hits each of them."""
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for command in commands:
            timed = _timed(command)
            if timed is not None:
                seconds, program = timed
                best[program] = min(seconds, best.get(program, seconds))
    return sorted((seconds, program) for program, seconds in best.items())


def _timed(command: str) -> tuple[float, str] | None:
    try:
        done = subprocess.run(
            [command, "-I", "-c", TIMED], capture_output=True, text=True, timeout=60, check=True
        )
        version, program, seconds = json.loads(done.stdout)
    except (OSError, TypeError, ValueError, subprocess.SubprocessError):  # it is no Python
        return None
    return (seconds, program) if version == list(sys.version_info[:2]) else None


def make_environment(folder: Path) -> str:
    """Of the fastest that can make one (Debian's cannot without python3-venv); returns which that was."""
    ranked = by_speed(interpreters())
    for seconds, program in ranked:
        shutil.rmtree(folder, ignore_errors=True)
        made = subprocess.run([program, "-m", "venv", folder], capture_output=True, check=False)
        if made.returncode == 0:
            others = [
                f"; {other} takes {time / seconds:.2f} x its time"
                for time, other in ranked
                if other != program
            ]
            return f"measuring with {program}{''.join(others)}"
    raise SystemExit("no Python here can make an environment: install its venv module")


if __name__ == "__main__":
    print(make_environment(Path(sys.argv[1])), file=sys.stderr)
