"""What every measured program shares: its command line, the sizes of the work, one JSON line a figure.

    python -m bench.floor W1 --store sqlite PLACE          PLACE: a new file, or an empty database's URL
    {"who": "floor", "work": "W1", "store": "sqlite", "mode": "", "steps_per_second": 41700, "settings": {}}

    W1  steps_per_second
    W2  p50_ms, p99_ms                     mode: direct, queue
    W3  runs_per_second                    mode: one by one, batch
    W7  steps_per_second_early, steps_per_second_late

Stepwell's own works have more figures; `bench.bars` names them all.

Only the standard library: peers run it in environments of their own. A figure whose name ends in
`_per_second` is better when higher, every other one when lower.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Store = Literal["sqlite", "postgres"]
STORES: tuple[Store, ...] = ("sqlite", "postgres")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    runs: int = 500  # W1
    steps: int = 10
    at_once: int = 50
    latencies: int = 200  # W2, after the warm-up
    warm_up: int = 10
    starts: int = 1_000  # W3
    batch: int = 100
    long_steps: int = 5_000  # W7
    window: int = 100  # W7: a rate is taken over so many steps
    batches: int = 20  # W3, of Stepwell only, as all that follows
    parallel: int = 1_000  # W4
    sleepers: int = 10_000  # W5
    lead: float = 8.0  # W5: seconds from the first start to the first wake
    spread: float = 10.0  # W5: seconds from the first wake to the last
    fleet_runs: int = 2_000  # W6
    items: int = 10_000  # W10
    imports: int = 15  # W8
    installs: bool = True


QUICK = replace(
    Sizes(),
    runs=100,
    latencies=50,
    starts=200,
    long_steps=1_000,
    batches=5,
    parallel=200,
    sleepers=1_000,
    items=500,
    lead=4.0,
    spread=2.0,
    fleet_runs=200,
    imports=3,
    installs=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One measurement: what to do, on which store, where, how much of it."""

    who: str
    work: str
    store: Store
    place: str
    sizes: Sizes

    def report(
        self, figures: Mapping[str, float], *, mode: str = "", settings: Mapping[str, object] | None = None
    ) -> None:
        line = {
            "who": self.who,
            "work": self.work,
            "store": self.store,
            "mode": mode,
            **{name: round(value, 3) for name, value in figures.items()},
            "settings": dict(settings or {}),
        }
        print(json.dumps(line), flush=True)


def task(who: str, works: Sequence[str], stores: Sequence[Store] = STORES) -> Task:
    """Reads the command line; says what this program can do when asked for something else."""
    parser = argparse.ArgumentParser(prog=who)
    parser.add_argument("work", choices=works)
    parser.add_argument("--store", choices=stores, required=True)
    parser.add_argument("--quick", action="store_true", help="a fraction of the work, to see that it runs")
    parser.add_argument("place", help="path of a new file (sqlite) or URL of an empty database (postgres)")
    asked = parser.parse_args()
    sizes = QUICK if asked.quick else Sizes()
    return Task(who=who, work=asked.work, store=asked.store, place=asked.place, sizes=sizes)


def quantiles_ms(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {"p50_ms": _at(ordered, 0.50) * 1000, "p99_ms": _at(ordered, 0.99) * 1000}


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def rates(finished: Sequence[float], sizes: Sizes) -> dict[str, float]:
    """Steps a second around step 100 and at the end of one long run, from the time of every step."""
    half = sizes.window // 2
    early = finished[sizes.window - half : sizes.window + half]
    late = finished[-sizes.window :]
    return {
        "steps_per_second_early": (len(early) - 1) / (early[-1] - early[0]),
        "steps_per_second_late": (len(late) - 1) / (late[-1] - late[0]),
    }
