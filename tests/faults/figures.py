"""Figures: what each fault test did and its findings, for the page that `make faults` prints."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.faults.checks import Evidence, Findings

REPORT_VARIABLE = "FAULTS_REPORT"
KINDS = {"kill": "workers killed", "freeze": "workers frozen", "database": "PostgreSQL killed"}


@dataclass(slots=True, kw_only=True)
class Figures:
    what: str
    store: str
    faults: dict[str, int]
    runs: int = 0
    operations: int = 0
    effects: int = 0
    repeats_explained: int = 0
    repeats_unexplained: int = 0
    condemned: int = 0
    violations: int = 0
    take_overs: list[float] = field(default_factory=list)
    lateness: list[float] = field(default_factory=list)

    def add(self, findings: Findings, *, runs: int) -> None:
        self.runs += runs
        self.operations += findings.operations
        self.effects += findings.effects
        self.repeats_explained += findings.repeats_explained
        self.repeats_unexplained += findings.repeats_unexplained
        self.condemned += findings.condemned
        self.violations += len(findings.violations)
        self.take_overs.extend(findings.take_overs)
        self.lateness.extend(findings.lateness)


def figures(what: str, store: str, evidence: Evidence, findings: Findings) -> Figures:
    figure = Figures(what=what, store=store, faults=dict(Counter(KINDS[f.kind] for f in evidence.faults)))
    figure.add(findings, runs=len(evidence.stories))
    return figure


def note(figure: Figures) -> None:
    """Keep them if they are collected, and print the most important ones."""
    print(
        f"{figure.store}: {figure.what}: {figure.runs} runs, {figure.faults}, set aside {figure.condemned}, "
        f"repeats {figure.repeats_explained} explained {figure.repeats_unexplained} not"
    )
    if figure.take_overs:
        print(f"take-over {histogram(figure.take_overs)}")
    if os.environ.get(REPORT_VARIABLE):
        with open(os.environ[REPORT_VARIABLE], "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(figure)) + "\n")


def read(file: Path) -> list[Figures]:
    return [Figures(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


EDGES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 2.5, 3.0, 5.0)


def histogram(values: list[float], edges: tuple[float, ...] = EDGES) -> str:
    """`<0.1 s 12 · <0.5 s 3`, empty classes left out."""
    left = sorted(values)
    parts: list[str] = []
    for edge in edges:
        count = sum(value < edge for value in left)
        parts.extend([f"<{edge:g} s {count}"] if count else [])
        left = left[count:]
    return " · ".join([*parts, f"more {len(left)}"] if left else parts) or "none"
