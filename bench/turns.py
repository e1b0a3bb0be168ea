"""Two versions of the code in turn: both are running, and one works while the other waits.

A busy machine changes its speed from one second to the next, so two measurements of five seconds each say
little about five per cent. Here a turn is a burst of about a hundred milliseconds, and each is compared with
the burst of the other version right beside it. The time on the processor is measured too, with that of
PostgreSQL's processes: other programs hardly change it.

    python -m bench.turns W1 PLACE          one version; each line of its input asks for so many runs

Both versions are measured by the files of this folder; the version is what `stepwell` is imported.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bench.contest import ROOT, Contestant, fresh, say
from bench.measure import STORES, Sizes, Store
from bench.works import graphs, machines, throughput
from bench.works.figures import Runs
from tools.postgres.cluster import Cluster
from tools.postgres.processes import children

WORKS: Mapping[str, Callable[[str, Sizes], AbstractAsyncContextManager[Runs]]] = MappingProxyType(
    {"W1": throughput.opened, "W9": graphs.opened, "W11": machines.opened}
)
BURST = 100  # runs
STOP_SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class Burst:
    """What one burst took: seconds, and seconds on processors."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """How fast one version is beside the other, from many pairs of bursts; below one it is slower."""

    wall: float
    cpu: float
    error: float  # standard error of `wall`
    pairs: int

    @classmethod
    def of(cls, pairs: Sequence[tuple[Burst, Burst]]) -> Ratio:
        """Each pair: the version that is judged, the one it is compared with."""
        walls = [before.wall / now.wall for now, before in pairs]
        cpus = [before.cpu / now.cpu for now, before in pairs]
        return cls(statistics.median(walls), statistics.median(cpus), _error(walls), len(pairs))


def _error(values: Sequence[float]) -> float:
    """Of the median, from the middle half: a burst that was interrupted for long says nothing."""
    if len(values) < 4:
        return float("inf")
    low, _, high = statistics.quantiles(values, n=4)
    return float(1.25 * (high - low) / 1.35 / len(values) ** 0.5)


def source_path(side: Contestant) -> list[str]:
    """Its engine, measured by our bench: an old commit knows no turns."""
    return [str(side.root / "src"), str(ROOT)]


class Program:
    """One version of the code, which waits for its turns in a process of its own."""

    def __init__(self, side: Contestant, work: str, place: str, server: int | None) -> None:
        self._server = server
        self._process = subprocess.Popen(
            [side.python, "-m", "bench.turns", work, place],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(source_path(side))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def burst(self, runs: int) -> Burst:
        before = self._server_seconds()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{runs}\n")
        self._process.stdin.flush()
        text = self._process.stdout.readline()
        if not text:
            raise RuntimeError(f"the measured program ended with exit code {self._process.wait()}")
        wall, cpu = json.loads(text)
        return Burst(wall, cpu + self._server_seconds() - before)

    def _server_seconds(self) -> float:
        """PostgreSQL's processes so far. Those of the other version sleep."""
        return sum(map(_seconds_on_processors, children(self._server))) if self._server else 0.0

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(STOP_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()


def _seconds_on_processors(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    except OSError:  # it has just ended
        return 0.0


def ratios(
    now: Contestant, before: Contestant, works: Sequence[str], *, rounds: int, turns: int
) -> dict[str, Ratio]:
    """By work and store. A round has new processes and databases: no two processes are equally fast."""
    pairs: dict[str, list[tuple[Burst, Burst]]] = {}
    with Cluster() as cluster:
        for number in range(rounds):
            for work in works:
                for store in STORES:
                    found = pairs.setdefault(f"{work} {store}", [])
                    with _programs((now, before), work, store, cluster) as programs:
                        found += in_turn(programs, turns)
                    here = Ratio.of(found[-turns:])
                    say(
                        f"{number + 1}/{rounds}  {work:<4}{store:<9} rate {here.wall:.2f} x, "
                        f"processor {here.cpu:.2f} x, load {os.getloadavg()[0]:.1f}"
                    )
    return {key: Ratio.of(found) for key, found in pairs.items()}


@contextmanager
def _programs(
    sides: Sequence[Contestant], work: str, store: Store, cluster: Cluster
) -> Iterator[list[Program]]:
    with ExitStack() as stack:
        programs = []
        for side in sides:
            place = stack.enter_context(fresh(store, cluster))
            program = Program(side, work, place, cluster.pid if store == "postgres" else None)
            stack.callback(program.close)
            programs.append(program)
        yield programs


def in_turn(programs: Sequence[Program], turns: int) -> list[tuple[Burst, Burst]]:
    """The first of a pair is the other one each time."""
    now, before = programs
    for program in programs:  # warm up
        program.burst(BURST)
    pairs = []
    for number in range(turns):
        if number % 2:
            other = before.burst(BURST)
            pairs.append((now.burst(BURST), other))
        else:
            ours = now.burst(BURST)
            pairs.append((ours, before.burst(BURST)))
    return pairs


async def main(work: str, place: str) -> None:
    loop = asyncio.get_running_loop()
    async with WORKS[work](place, Sizes()) as runs:
        while text := await loop.run_in_executor(None, sys.stdin.readline):
            began, used = time.perf_counter(), time.process_time()
            await runs(int(text))
            print(json.dumps([time.perf_counter() - began, time.process_time() - used]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
