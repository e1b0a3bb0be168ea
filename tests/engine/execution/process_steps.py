"""Steps that run in processes of their own: importable by name, with types to carry over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from stepwell import Permanent, Retry, StepContext, step


@dataclass
class Parcel:
    weight: Decimal
    tags: tuple[str, ...]


@step(isolation="process")
def own_pid() -> int:
    return os.getpid()


@step(isolation="process", timeout=60)
def hang() -> None:
    time.sleep(60)


@step(isolation="process")
def weigh(parcel: Parcel, factor: int = 1) -> Parcel:
    print("output of a step must not disturb its answer")
    return Parcel(parcel.weight * factor, (*parcel.tags, "weighed"))


@step(isolation="process")
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@step(isolation="process", retry=Retry(3, delay=0))
def die_once(me: StepContext) -> str:
    if me.attempt == 1:
        os._exit(3)
    return f"{me.attempt} {me.key}"


@step(isolation="process", retry=Retry(3, delay=0))
async def asynchronous(me: StepContext, word: str) -> str:
    return word.upper()


@step(isolation="process", retry=Retry(3, delay=0, on=(LookupError,)))
def fail_with(me: StepContext, what: str) -> str:
    if me.attempt == 2:
        return f"attempt {me.attempt}"
    if what == "key":
        raise KeyError("missing")
    if what == "permanent":
        raise Permanent("never")
    raise ValueError("wrong")


@step(isolation="process", timeout=60)
def hold_until(begun: str, release: str) -> str:
    Path(begun).touch()
    while not Path(release).exists():
        time.sleep(0.02)
    return "held"


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@step(isolation="process")
def save_apart(me: StepContext, what: str) -> str:
    me.save("apart", what)
    return what


@step(isolation="process")
def leave() -> None:
    sys.exit(3)


@step(isolation="process")
def read_input() -> str:
    inner = subprocess.run(["cat"], capture_output=True, text=True, check=True)  # inherits the input
    return sys.stdin.read() + inner.stdout


@step(isolation="process")
def returns_nonsense() -> object:
    return {"parts": [object()]}


@step(isolation="process")
def stumble() -> None:
    raise ValueError("in its own process")
