"""Recovery: what a crash, a herd of timers and a lock cost those who wait; before and after.

    python -m tools.recovery [--only deaths|herd|lock]     the figures of the installed code, as JSON

`make faults` runs it twice, with this source and with that of the commit before the repairs, and prints the
two side by side. It uses nothing but the public interface, so that both can be measured alike.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepwell import Context, Engine, Settings, step, workflow
from tools.postgres import processes

ROOT = Path(__file__).parents[1]
BEFORE = "c757b29"  # the last commit before these were mended
SHORT_RUNS = 24
SHORT_STEPS = 4  # of a short run
STEP_SECONDS = 0.3
TIMERS = 20_000
IDLE_RUNS = 300
PROBE_SECONDS = 0.05  # between two fresh runs while the timers drain
LOCK_PATIENCE = 100.0  # seconds; who has heard nothing by then is not waited for any longer
Figures = dict[str, float]


@workflow
async def short(ctx: Context, marks: str) -> int:
    for n in range(SHORT_STEPS):
        await ctx.step(take_a_moment, f"{marks}/{n}")
    return SHORT_STEPS


async def take_a_moment(mark: str) -> None:
    await asyncio.to_thread(_note, mark)
    await asyncio.sleep(STEP_SECONDS)


def _note(mark: str) -> None:
    with open(mark, "a", encoding="ascii") as file:
        file.write("x")


@workflow
async def sleeper(ctx: Context, seconds: float) -> float:
    await ctx.sleep(seconds)
    return time.time()


@workflow
async def fresh(ctx: Context, n: int) -> int:
    return await ctx.step(same, n)


async def same(n: int) -> int:
    return n


@step(transactional=True)
def stand_still(connection: Any) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS mine (value)")
    os.kill(os.getpid(), signal.SIGSTOP)


@workflow
async def stands_still(ctx: Context) -> None:
    await ctx.step(stand_still)


WORKFLOWS: list[Any] = [short, sleeper, fresh, stands_still]


async def serve(url: str) -> None:
    await Engine(url, workflows=WORKFLOWS).serve(lambda: print("ready", flush=True))


@contextmanager
def worker(url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that works; killed at the end, if it lives then."""
    code = f"import asyncio; from tools import recovery; asyncio.run(recovery.serve({url!r}))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def deaths(folder: Path) -> Figures:
    """Short runs on a worker that is killed twice while it has them all: when has the last one ended?"""
    url, marks = str(folder / "app.db"), folder / "marks"
    marks.mkdir()
    async with Engine(url, workflows=WORKFLOWS, worker=False) as engine:
        runs = [await engine.start(short, str(marks)) for _ in range(SHORT_RUNS)]
        for death in (1, 2):
            with worker(url):
                await _until(lambda: _written(marks / "0") >= death * SHORT_RUNS)  # noqa: B023  # awaited at once
        began = time.monotonic()
        with worker(url):
            for run in runs:
                await run.result(timeout=600)
    settings = Settings()
    return {
        "seconds": time.monotonic() - began,
        "allowed": settings.lease_seconds + 2 * settings.reap_seconds,
    }


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110  # another process does it
        await asyncio.sleep(0.01)


def _written(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


async def herd(folder: Path) -> Figures:
    """Timers that are due at one instant: how late the last fire, how long a fresh run takes meanwhile."""
    async with Engine(str(folder / "app.db"), workflows=WORKFLOWS) as engine:
        idle: list[float] = []
        for n in range(IDLE_RUNS):
            idle.append(await _timed(engine, n))
            await asyncio.sleep(0.01)
        due = time.time() + 15 + TIMERS / 400
        timers = []
        for _ in range(0, TIMERS, 500):
            async with asyncio.TaskGroup() as group:
                started = [
                    group.create_task(engine.start(sleeper, max(due - time.time(), 0.1))) for _ in range(500)
                ]
            timers += [task.result() for task in started]
        await asyncio.sleep(max(0.0, due - time.time()) + 0.2)
        probes: list[tuple[float, asyncio.Task[float]]] = []
        async with asyncio.TaskGroup() as group:
            late = group.create_task(_lateness(timers, due))
            while not late.done():  # however long the ones before take
                probes.append((time.time(), group.create_task(_timed(engine, 0))))
                await asyncio.sleep(PROBE_SECONDS)
        lateness = late.result()
        busy = [probe.result() for begun, probe in probes if begun < due + max(lateness)]
    return {
        "idle_p99": _p99(idle),
        "fresh_p99": _p99(busy),
        "timers_p99": _p99(lateness),
    }


async def _timed(engine: Engine, n: int) -> float:
    began = time.perf_counter()
    await (await engine.start(fresh, n)).result()
    return time.perf_counter() - began


async def _lateness(timers: list[Any], due: float) -> list[float]:
    return [await run.result() - due for run in timers]


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)] if len(values) > 1 else values[0]


async def lock(folder: Path) -> Figures:
    """A process stands still inside a transactional step: when does a start elsewhere hear of it?"""
    url = str(folder / "app.db")
    async with Engine(url, workflows=WORKFLOWS, worker=False) as engine:
        with worker(url) as holder:
            await engine.start(stands_still)
            await _until(lambda: processes.stopped(holder.pid))
            began, named = time.monotonic(), 0.0
            try:
                async with asyncio.timeout(LOCK_PATIENCE):
                    await engine.start(fresh, 1)
            except Exception as error:
                named = float(str(holder.pid) in str(error))
            seconds = time.monotonic() - began
    return {"seconds": seconds, "named": named}


PARTS: dict[str, Callable[[Path], Coroutine[Any, Any, Figures]]] = {
    "deaths": deaths,
    "herd": herd,
    "lock": lock,
}


def measured(source: Path) -> dict[str, Figures] | None:
    """The figures of this source, from a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.recovery"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)])},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def measured_before() -> dict[str, Figures] | None:
    """The same of the code before; None where its commit is not at hand."""
    archive = subprocess.run(["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        return None
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            tar.extractall(folder, filter="data")
        return measured(Path(folder) / "src")


def compared(before: dict[str, Figures] | None, after: dict[str, Figures] | None) -> tuple[list[str], bool]:
    """Lines of the page, and whether all is as it should be."""
    if after is None:
        return ["    not measured: the program failed"], False
    died, crowd, held = after["deaths"], after["herd"], after["lock"]
    ratio = crowd["fresh_p99"] / crowd["idle_p99"]
    good = died["seconds"] <= died["allowed"] and ratio <= 10 and bool(held["named"])
    allowed, idle = died["allowed"], crowd["idle_p99"] * 1000
    return [
        _compared(f"{SHORT_RUNS} runs lost two owners: last done after", before, after, "deaths", "seconds")
        + f"  (at most {allowed:.0f} s: lease + two sweeps)",
        _compared(f"{TIMERS} timers due at once on SQLite: p99 late by", before, after, "herd", "timers_p99"),
        _compared("a fresh run meanwhile: p99", before, after, "herd", "fresh_p99")
        + f"  ({ratio:.1f} x its idle p99 of {idle:.0f} ms; at most 10 x)",
        _compared("frozen with SQLite's write lock: a start hears after", before, after, "lock", "seconds")
        + f"  (who holds it is {'named' if held['named'] else 'not named'})",
    ], good


def _compared(
    text: str, before: dict[str, Figures] | None, after: dict[str, Figures], part: str, name: str
) -> str:
    old = "?" if before is None else f"{before[part][name]:.2f} s"
    return f"    {text:54} {old:>9} -> {after[part][name]:6.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=list(PARTS), action="append", help="one part; may be repeated")
    chosen = parser.parse_args().only or list(PARTS)
    found: dict[str, Figures] = {}
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = asyncio.run(PARTS[name](Path(folder)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
