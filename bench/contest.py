"""Runs measured programs side by side and compares them: same machine, same minutes, same disks."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from bench.measure import STORES, Store
from bench.pace import LOOKS, Pace, pace_of
from tools.disk import disk_folder
from tools.postgres.cluster import Cluster

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
TIMEOUT_SECONDS = 300
OURS = "stepwell"
FLOOR = "floor"
NOT_FIGURES = {"who", "work", "store", "mode", "settings", "load", "pace", "pace_in_turn", "looks"}

Line = dict[str, object]
Key = tuple[str, str, str, str]  # work, store, mode, figure
Medians = dict[Key, dict[str, float]]  # -> by contestant


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    name: str
    module: str
    works: frozenset[str] | None  # None: asks the program itself
    stores: tuple[Store, ...] = STORES
    python: str = sys.executable
    root: Path = ROOT  # the checkout whose code is measured
    only: Mapping[str, Store] = field(default_factory=dict)  # a work that makes sense on one store

    def takes(self, work: str, store: Store) -> bool:
        able = self.works is None or work in self.works
        return able and store in self.stores and self.only.get(work, store) == store


def home_side() -> list[Contestant]:
    """The floor, and Stepwell when its bench is there."""
    sides = [Contestant(name=FLOOR, module="bench.floor", works=frozenset({"W1", "W2"}))]
    if find_spec("bench.stepwell_bench"):
        # W6 is about a server; W8 stores nothing and is measured once.
        only: dict[str, Store] = {"W6": "postgres", "W8": "sqlite"}
        sides.append(Contestant(name=OURS, module="bench.stepwell_bench", works=None, only=only))
    else:
        say("bench.stepwell_bench is not there: measuring without Stepwell")
    return sides


def hold(contestants: Sequence[Contestant], works: Sequence[str], *, repeat: int, quick: bool) -> list[Line]:
    """Every contestant in turn, then all again in the opposite order: a slow minute of the machine, or a
    first place that is better than the second, hits all of them."""
    lines: list[Line] = []
    with Cluster() as cluster:
        for number in range(repeat):
            for work in works:
                for store in STORES:
                    for contestant in contestants[:: -1 if number % 2 else 1]:
                        if contestant.takes(work, store):
                            say(f"{number + 1}/{repeat}  {work}  {store:<8}  {contestant.name}")
                            lines += beside_the_pace(contestant, work, store, cluster, quick=quick)
    return lines


def beside_the_pace(
    contestant: Contestant, work: str, store: Store, cluster: Cluster, *, quick: bool
) -> list[Line]:
    """The figures of one work, each line with the machine's pace around it."""
    paces: list[Pace] = []

    def look() -> None:
        for _ in range(LOOKS):
            with fresh(store, cluster) as place:
                paces.append(pace_of(store, place))

    look()
    with fresh(store, cluster) as place:
        lines = measure(contestant, work, store, place, quick=quick)
    look()
    around = Pace.median(paces)
    looks = [[round(pace.many, 3), round(pace.in_turn, 3)] for pace in paces]
    for line in lines:
        line.update({"pace": around.many, "pace_in_turn": around.in_turn, "looks": looks})
    return lines


@contextmanager
def fresh(store: Store, cluster: Cluster) -> Iterator[str]:
    """An empty database that nobody has touched."""
    if store == "sqlite":
        with tempfile.TemporaryDirectory(prefix="stepwell-bench-", dir=disk_folder()) as folder:
            yield str(Path(folder) / "bench.db")
    else:
        url = cluster.databases.create()
        yield url
        cluster.databases.drop(url)


def measure(contestant: Contestant, work: str, store: Store, place: str, *, quick: bool) -> list[Line]:
    command = [contestant.python, "-m", contestant.module, work, "--store", store, place]
    if quick:
        command.append("--quick")
    load = os.getloadavg()[0]
    code = os.pathsep.join([str(contestant.root / "src"), str(contestant.root)])
    try:
        done = subprocess.run(
            command,
            cwd=contestant.root,
            env={**os.environ, "PYTHONPATH": code},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        say(f"    gave up after {TIMEOUT_SECONDS} s")
        return []
    lines: list[Line] = [json.loads(text) for text in done.stdout.splitlines() if text.startswith("{")]
    if not lines:
        say(f"    no figures, exit code {done.returncode}: {done.stderr.strip()[-800:]}")
    for line in lines:
        line.update({"who": contestant.name, "load": round(load, 2)})
        line.setdefault("mode", "")
        figures = ", ".join(f"{name} {amount(value)}" for name, value in figures_of(line).items())
        say(f"    {line['mode']} {figures}")
    return lines


def figures_of(line: Mapping[str, object]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in line.items()
        if name not in NOT_FIGURES and isinstance(value, int | float) and not isinstance(value, bool)
    }


def medians(lines: Sequence[Line]) -> Medians:
    gathered: dict[Key, dict[str, list[float]]] = {}
    for line in lines:
        for figure, value in figures_of(line).items():
            key = (str(line["work"]), str(line["store"]), str(line["mode"]), figure)
            gathered.setdefault(key, {}).setdefault(str(line["who"]), []).append(value)
    return {
        key: {who: statistics.median(values) for who, values in by_name.items()}
        for key, by_name in gathered.items()
    }


def advantage(figure: str, ours: float, theirs: float) -> float:
    """How many times better ours is; above one is better, whichever way the figure points."""
    better, worse = (ours, theirs) if "_per_second" in figure else (theirs, ours)
    return better / worse if worse else float("inf")


def table(found: Medians, names: Sequence[str]) -> Iterator[str]:
    """One line a figure, one column a contestant; beside a peer's figure how many times better ours is."""
    label_width = max((len(label(key)) for key in found), default=0)
    yield " " * label_width + "".join(f"{name:>20}" for name in names)
    for key in sorted(found):
        cells = []
        for name in names:
            value = found[key].get(name)
            ours = found[key].get(OURS)
            text = "-" if value is None else amount(value)
            if value is not None and ours is not None and name != OURS:
                text += f" ({advantage(key[3], ours, value):.2f} x)"
            cells.append(f"{text:>20}")
        yield f"{label(key):<{label_width}}" + "".join(cells)


def label(key: Key) -> str:
    return "  ".join(part for part in key if part)


def amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def settings(lines: Sequence[Line]) -> Iterator[str]:
    """How each contestant was set up, once for each work."""
    yield python_used()
    yield from dict.fromkeys(
        f"{line['who']:<10} {line['work']} {line['store']} {line['mode']}: {json.dumps(line['settings'])}"
        for line in lines
        if line.get("settings")
    )


def python_used() -> str:
    """With its path: how it was built moves every figure."""
    return f"Python {platform.python_version()} of {os.path.realpath(sys.executable)}"


def keep(title: str, lines: Sequence[Line], found: Medians) -> Path:
    now = datetime.now(UTC)
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{title}-{now:%Y%m%d-%H%M%S}.json"
    result = {
        "at": now.isoformat(timespec="seconds"),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": python_used(),
        },
        "medians": [
            {"work": work, "store": store, "mode": mode, "figure": figure, **by_name}
            for (work, store, mode, figure), by_name in sorted(found.items())
        ],
        "lines": lines,
    }
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path


def hold_and_print(
    title: str, contestants: Sequence[Contestant], works: Sequence[str], *, repeat: int, quick: bool
) -> int:
    began = time.monotonic()
    lines = hold(contestants, works, repeat=repeat, quick=quick)
    found = medians(lines)
    names = [contestant.name for contestant in contestants]
    print("\nsettings")
    print("\n".join(settings(lines)))
    print(f"\nmedians of {repeat}; in brackets: how many times better Stepwell is")
    print("\n".join(table(found, names)))
    path = keep(title, lines, found)
    say(f"{time.monotonic() - began:.0f} s; kept in {path.relative_to(ROOT)}")
    return 0 if lines else 1


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
