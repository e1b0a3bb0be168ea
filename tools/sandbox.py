"""What code nodes cost beside their bare sandbox, and hostile code its neighbours: `python -m tools.sandbox`.

Prints the cold start of each language, and its warm rate in the engine as a ratio to the same pool without
an engine, measured in turns. Then it runs endless loops, memory bombs, fork bombs and crashes beside quick
runs of the same worker, with code and without, and prints how late its heartbeats and runs were. Exit code 1:
a ratio below its bar, a quick run that failed, or a heartbeat that came too late.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from stepwell import Context, Engine, RunHandle, workflow
from stepwell.sandbox import confinement
from stepwell.sandbox.code_sandbox import CodeSandbox, Language
from stepwell.sandbox.errors import CodeError
from stepwell.sandbox.jail import jail, jailed
from stepwell.sandbox.pool import SandboxPool
from tools.disk import disk_folder
from tools.node_rates import BAR, ITEMS, SETTINGS, Rates, in_turns, loop_graph

LATE_SECONDS = 2.0  # that a heartbeat may come late on a busy machine; its lease has three times that
CODE: dict[Language, str] = {
    "javascript": "return ctx.loop.item + 1",
    "python": "return ctx['loop']['item'] + 1",
}
HOSTILE: dict[str, tuple[Language, str]] = {
    "endless JavaScript": ("javascript", "for (;;) {}"),
    "endless Python": ("python", "while True: pass"),
    "a pattern without end": ("javascript", "return /^(a+)+$/.test('a'.repeat(60) + '!')"),
    "a memory bomb": ("javascript", "const all = []; for (;;) all.push(new Array(1e5).fill(7))"),
    "a native memory bomb": ("javascript", "return new Array(5e8).join('x')"),
    "a Python memory bomb": ("python", "return [0] * 10 ** 9"),
    "recursion": ("javascript", "const f = () => f() + f(); return f()"),
}

# What no script can do is done by programs that are started and confined like a sandbox.
_CONFINED = f"""
import ctypes, os, sys
sys.path.insert(0, {str(Path(confinement.__file__).parent)!r})
import confinement
confinement.confine()
sys.stdin.buffer.read(4)
"""
NATIVE = {
    "a fork bomb": (_CONFINED + "while True: os.fork()", "CODE_PROCESS_LIMIT"),
    "a crash": (_CONFINED + "ctypes.string_at(0)", "CODE_CRASHED"),
}


class Beside(NamedTuple):
    """What happened to the quick runs of a worker."""

    runs: int
    failed: int
    latest_beat: float  # seconds after it was due
    slow: float  # seconds that 99 of 100 runs took
    with_code: int  # runs with code of their own, which waits behind the hostile code
    longest: float  # seconds that one of these took


async def cold_start(language: Language) -> float:
    sandbox = CodeSandbox(language, processes=1)
    began = time.perf_counter()
    try:
        await sandbox.run("return 1", {}, timeout=30.0, output_max=1000)
        return time.perf_counter() - began
    finally:
        await sandbox.close()


async def rates(language: Language, database: str, *, turns: int = 5) -> Rates:
    sandbox = CodeSandbox(language)

    async def call(item: int) -> None:
        loop = {"item": item, "index": item, "count": ITEMS, "carry": None}
        ctx = {"input": {"items": list(range(ITEMS))}, "loop": loop}  # as the node gets it
        await sandbox.run(CODE[language], ctx, timeout=30.0, output_max=10_000)

    try:
        async with Engine(database, settings=SETTINGS) as engine:
            return await in_turns(call, loop_graph(language, {"code": CODE[language]}), engine, turns=turns)
    finally:
        await sandbox.close()


@workflow(name="quick")
async def quick(ctx: Context, n: int = 0) -> int:
    await ctx.step(_add, n)
    return n


async def _add(n: int) -> int:
    return n + 1


async def beside(database: str, *, seconds: float, hostile: bool) -> Beside:
    """Quick runs in one worker, with hostile code in it or without."""
    async with Engine(database, workflows=[quick], settings=SETTINGS) as engine:
        assert engine.worker is not None
        with _beats(engine) as beats:
            attackers = [
                asyncio.create_task(_attack(engine, name, seconds)) for name in (HOSTILE if hostile else ())
            ]
            attackers += [
                asyncio.create_task(_attack_natively(*attack, seconds))
                for attack in (NATIVE.values() if hostile else ())
            ]
            coding = asyncio.create_task(_code_load(engine, seconds))
            took, failed = await _load(engine, seconds)
            waited, broken = await coding
            await asyncio.gather(*attackers)
    gaps = [later - sooner for sooner, later in itertools.pairwise(beats)]
    late = max(gaps, default=0.0) - SETTINGS.heartbeat_seconds
    slow = sorted(took)[int(len(took) * 0.99) - 1]
    return Beside(len(took), failed + broken, max(0.0, late), slow, len(waited), max(waited))


@contextmanager
def _beats(engine: Engine) -> Iterator[list[float]]:
    """When the store has answered a heartbeat of this engine's worker."""
    beats: list[float] = []
    store: Any = engine.store
    ask = store.heartbeat

    async def heartbeat(*args: Any) -> Any:
        answer = await ask(*args)
        beats.append(time.monotonic())
        return answer

    store.heartbeat = heartbeat
    try:
        yield beats
    finally:
        del store.heartbeat


async def _load(engine: Engine, seconds: float) -> tuple[list[float], int]:
    took: list[float] = []
    failed = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        runs: list[RunHandle[int]] = [await engine.start(quick, len(took) + n) for n in range(5)]
        for run in runs:
            try:
                await run.result(60)
            except Exception:
                failed += 1
            took.append(time.monotonic() - began)
    return took, failed


async def _code_load(engine: Engine, seconds: float) -> tuple[list[float], int]:
    """Run a graph with code, one after the other, in both languages."""
    took: list[float] = []
    failed = 0
    until = time.monotonic() + seconds
    for language in itertools.cycle(CODE):
        began = time.monotonic()
        graph = loop_graph(language, {"code": CODE[language], "timeoutMs": 1000})
        try:
            await (await engine.start_graph(graph, {"items": [1]})).result(60)
        except Exception:
            failed += 1
        took.append(time.monotonic() - began)
        if time.monotonic() >= until:
            break
    return took, failed


async def _attack(engine: Engine, name: str, seconds: float) -> None:
    """Start the hostile graph again and again; each of its runs fails, and that is all it does."""
    language, code = HOSTILE[name]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        graph = loop_graph(language, {"code": code, "timeoutMs": 700, "retry": {"maxAttempts": 1}})
        run = await engine.start_graph(graph, {"items": [1, 2]})
        try:
            output = await run.result(60)
        except Exception:
            continue
        raise AssertionError(f"{name} was not stopped: {output}")


async def _attack_natively(program: str, code: str, seconds: float) -> None:
    """Start the hostile program again and again; each process is ended, and that is all it does."""
    until = time.monotonic() + seconds
    pool = SandboxPool(jailed([sys.executable, "-I", "-S", "-c", program]), size=1)
    try:
        while time.monotonic() < until:
            try:
                await pool.run({}, 20.0)
            except CodeError as error:
                if error.code != code:
                    raise
    finally:
        await pool.close()


async def measured(folder: Path, *, turns: int, seconds: float) -> bool:
    fine = True
    print(f"jail: {'bubblewrap' if jail() else 'none'}")
    for language in CODE:
        cold = await cold_start(language)
        found = await rates(language, str(folder / f"{language}.db"), turns=turns)
        fine = fine and found.ratio >= BAR
        print(f"{language}: cold start {cold * 1000:,.0f} ms; warm {found.text}")
    for hostile in (False, True):
        kind = "with" if hostile else "without"
        seen = await beside(str(folder / f"beside-{kind}.db"), seconds=seconds, hostile=hostile)
        fine = fine and not seen.failed and seen.latest_beat < LATE_SECONDS
        print(
            f"{kind} hostile code: {seen.runs:,} quick runs, {seen.failed} failed, 99 of 100 within "
            f"{seen.slow * 1000:,.0f} ms; {seen.with_code:,} runs with code within {seen.longest:.1f} s; "
            f"latest heartbeat {seen.latest_beat * 1000:,.0f} ms late"
        )
    return fine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=disk_folder()) as folder:
        found = measured(Path(folder), turns=chosen.turns, seconds=chosen.seconds)
        sys.exit(0 if asyncio.run(found) else 1)


if __name__ == "__main__":
    main()
