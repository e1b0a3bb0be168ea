"""The bars: what Stepwell must reach, what it aims for, and whether the measured medians do.

They were set on one two-core machine. What the floor does in the same run tells how fast this one is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bench.contest import FLOOR, OURS, Key, Medians, advantage, amount, label

# Steps a second of the floor in W1, on the machine that the bars were set on.
FLOOR_THEN: Mapping[str, float] = MappingProxyType({"sqlite": 41_700.0, "postgres": 46_800.0})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    work: str
    figure: str
    bar: float
    aim: float
    mode: str = ""
    at_least: bool = False  # else at most
    or_at_least: tuple[str, float] | None = None  # another figure of the same line that also will do

    def fits(self, key: Key) -> bool:
        return (key[0], key[2], key[3]) == (self.work, self.mode, self.figure)

    def met(self, value: float, other: float | None = None) -> bool:
        enough = value >= self.bar if self.at_least else value <= self.bar
        return enough or (self.or_at_least is not None and other is not None and other >= self.or_at_least[1])


BARS: tuple[Bar, ...] = (
    Bar(work="W1", figure="steps_per_second", bar=10_000, aim=20_000, at_least=True),
    Bar(work="W2", mode="direct", figure="p50_ms", bar=3, aim=2),
    Bar(work="W2", mode="direct", figure="p99_ms", bar=10, aim=5),
    Bar(work="W2", mode="queue", figure="p50_ms", bar=8, aim=5),
    Bar(work="W2", mode="queue", figure="p99_ms", bar=30, aim=15),
    Bar(work="W3", mode="one by one", figure="runs_per_second", bar=3_000, aim=5_000, at_least=True),
    Bar(work="W3", mode="batch", figure="runs_per_second", bar=20_000, aim=30_000, at_least=True),
    Bar(work="W4", mode="gather", figure="seconds", bar=0.35, aim=0.15),
    Bar(work="W4", mode="map", figure="seconds", bar=0.35, aim=0.15),
    Bar(work="W4c", figure="seconds", bar=1.0, aim=0.5),
    Bar(work="W5", figure="asleep_s", bar=5, aim=2),
    Bar(work="W5", figure="p50_ms", bar=50, aim=20),
    Bar(work="W5", figure="p99_ms", bar=115, aim=50),
    Bar(work="W5", figure="memory_growth_mb", bar=25, aim=5),
    Bar(
        work="W6",
        figure="scaling",
        bar=1.2,
        aim=1.55,
        at_least=True,
        or_at_least=("steps_per_second", 12_000),
    ),
    Bar(work="W7", figure="flatness", bar=0.9, aim=1.0, at_least=True),
    Bar(work="W7r", figure="seconds", bar=0.15, aim=0.08),
    Bar(work="W8", mode="package", figure="import_ms", bar=150, aim=100),
    Bar(work="W8", mode="names", figure="import_ms", bar=150, aim=100),
    Bar(work="W9", figure="nodes_per_second", bar=5_000, aim=10_000, at_least=True),
    Bar(work="W10", figure="seconds", bar=15, aim=5),
    Bar(work="W10", figure="memory_growth_mb", bar=150, aim=50),
    Bar(work="W10", figure="double_fires", bar=0, aim=0),
    Bar(work="W10", mode="remote", figure="seconds", bar=15, aim=5),
    Bar(work="W10", mode="remote", figure="memory_growth_mb", bar=150, aim=50),
    Bar(work="W10", mode="remote", figure="double_fires", bar=0, aim=0),
    Bar(work="W11", figure="transitions_per_second", bar=8_000, aim=15_000, at_least=True),
)


def verdicts(found: Medians) -> Iterator[str]:
    """One line a figure of ours: the bar, whether it is met, how it stands to the floor of the same run."""
    keys = [key for key in sorted(found) if OURS in found[key]]
    width = max((len(label(key)) for key in keys), default=0)
    yield f"{'':<{width}}{'stepwell':>12}{'bar':>12}{'aim':>12}  {'verdict':<8}{'of the floor':>14}"
    counted = []
    for key in keys:
        value, floor = found[key][OURS], found[key].get(FLOOR)
        bar = next((bar for bar in BARS if bar.fits(key)), None)
        ratio = "" if floor is None else f"{advantage(key[3], value, floor):.2f} x"
        if bar is None:
            yield f"{label(key):<{width}}{amount(value):>12}{'':>12}{'':>12}  {'':<8}{ratio:>14}"
            continue
        good = bar.met(value, _other(bar, key, found))
        counted.append(good)
        sign = ">=" if bar.at_least else "<="
        limits = f"{sign + ' ' + amount(bar.bar):>12}{amount(bar.aim):>12}"
        verdict = "met" if good else "MISSED"
        yield f"{label(key):<{width}}{amount(value):>12}{limits}  {verdict:<8}{ratio:>14}"
    yield f"met: {sum(counted)} of {len(counted)}"
    yield from _pace(found)


def _other(bar: Bar, key: Key, found: Medians) -> float | None:
    if bar.or_at_least is None:
        return None
    return found.get((*key[:3], bar.or_at_least[0]), {}).get(OURS)


def _pace(found: Medians) -> Iterator[str]:
    for store, then in FLOOR_THEN.items():
        now = found.get(("W1", store, "", "steps_per_second"), {}).get(FLOOR)
        if now is not None:
            yield f"{store}: the floor ran at {now / then:.2f} of its pace where the bars were set"
