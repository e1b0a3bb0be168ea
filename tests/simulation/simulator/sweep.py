"""Sweep: run many seeds on several cores, and sum them up in one line."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from multiprocessing import get_context

from tests.simulation.checker.evidence import Violation
from tests.simulation.simulator.changes import CHANGES
from tests.simulation.simulator.operators import OPERATORS
from tests.simulation.simulator.shapes import MACHINES, SHAPES, Shape
from tests.simulation.simulator.world import simulate

_CHUNK = 50
WORLDS: dict[str, Sequence[Shape]] = {
    "functions": SHAPES,
    "machines": MACHINES,
    "changes": CHANGES,
    "operators": OPERATORS,
}


@dataclass(slots=True)
class Summary:
    seeds: int = 0
    virtual_seconds: float = 0.0
    handles: int = 0
    operations: int = 0
    runs: int = 0
    executions: int = 0
    repeats: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    violations: dict[int, list[Violation]] = field(default_factory=dict)

    def add(self, other: Summary) -> None:
        self.seeds += other.seeds
        self.virtual_seconds += other.virtual_seconds
        self.handles += other.handles
        self.operations += other.operations
        self.runs += other.runs
        self.executions += other.executions
        self.repeats += other.repeats
        self.faults.update(other.faults)
        self.violations.update(other.violations)

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        return (
            f"{self.seeds} seeds, {self.virtual_seconds / 3600:.1f} virtual hours, {self.runs} runs, "
            f"{self.operations} store calls, {self.executions} effects, {self.repeats} repeated; "
            f"faults: {faults}; {len(self.violations)} seeds with violations"
        )


def sweep(seeds: Iterable[int], *, jobs: int = 1, world: str = "functions") -> Summary:
    """Run all seeds over the runs of one world; with several jobs, in separate processes."""
    wanted = list(seeds)
    chunks = [wanted[at : at + _CHUNK] for at in range(0, len(wanted), _CHUNK)]
    total = Summary()
    if jobs <= 1:
        for chunk in chunks:
            total.add(_some(chunk, world))
        return total
    # Fresh interpreters: a fork would inherit the tests' threads and connections.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for part in pool.map(_some, chunks, repeat(world)):
            total.add(part)
    return total


def _some(seeds: list[int], world: str) -> Summary:
    summary = Summary()
    for seed in seeds:
        report = simulate(seed, shapes=WORLDS[world])
        summary.seeds += 1
        summary.virtual_seconds += report.virtual_seconds
        summary.handles += report.handles
        summary.operations += report.operations
        summary.runs += report.runs
        summary.executions += report.executions
        summary.repeats += report.repeats
        summary.faults.update(report.faults)
        if report.violations:
            summary.violations[seed] = report.violations
    gc.collect()  # dead worlds are full of cycles
    return summary
