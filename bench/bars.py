"""The bars: what Stepwell must reach, what it aims for, and whether the measured medians do.

They were set on one two-core machine. How fast this one was around each work is measured with it (`pace`),
so there are two verdicts: on the figure itself, and on what it would be at the pace of that machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.contest import FLOOR, OURS, Key, Line, Medians, advantage, amount, figures_of, label, medians
from bench.pace import FLOOR_THEN

IN_TURN = {("W2", "direct"), ("W2", "queue"), ("W3", "one by one")}  # each waits for the one before it
UNPACED = {"W8"}  # stores nothing


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


def at_that_pace(lines: Sequence[Line]) -> Medians:
    """The medians as they would be on the machine of the bars: each line by the pace around it."""
    return medians([_scaled(line) for line in lines if "pace" in line and line["work"] not in UNPACED])


def _scaled(line: Line) -> Line:
    in_turn = (line["work"], line["mode"]) in IN_TURN
    pace = float(str(line["pace_in_turn" if in_turn else "pace"]))
    scaled = {name: _at(pace, name, value) for name, value in figures_of(line).items()}
    return {**line, **scaled}


def _at(pace: float, figure: str, value: float) -> float:
    if "_per_second" in figure:
        return value / pace
    return value * pace if figure.endswith(("seconds", "_s", "_ms")) else value


def verdicts(found: Medians, paced: Medians | None = None) -> Iterator[str]:
    """One line a figure of ours: the bar, whether it is met here and at the pace of the machine where it
    was set, and how it stands to the floor of the same run."""
    paced = paced or {}
    keys = [key for key in sorted(found) if OURS in found[key]]
    width = max((len(label(key)) for key in keys), default=0)
    heads = f"{'stepwell':>12}{'bar':>12}{'aim':>12}  {'verdict':<8}{'at that pace':>14}  {'verdict':<8}"
    yield f"{'':<{width}}{heads}{'of the floor':>14}"
    here, there = [], []
    for key in keys:
        value, floor = found[key][OURS], found[key].get(FLOOR)
        bar = next((bar for bar in BARS if bar.fits(key)), None)
        ratio = "" if floor is None else f"{advantage(key[3], value, floor):.2f} x"
        if bar is None:
            yield f"{label(key):<{width}}{amount(value):>12}{'':>58}{ratio:>14}"
            continue
        here.append(bar.met(value, _other(bar, key, found)))
        sign = ">=" if bar.at_least else "<="
        limits = f"{sign + ' ' + amount(bar.bar):>12}{amount(bar.aim):>12}"
        scaled = paced.get(key, {}).get(OURS)
        also = ""
        if scaled is not None:
            there.append(bar.met(scaled, _other(bar, key, paced)))
            also = f"{amount(scaled):>14}  {_word(there[-1]):<8}"
        yield f"{label(key):<{width}}{amount(value):>12}{limits}  {_word(here[-1]):<8}{also:<24}{ratio:>14}"
    yield f"met: {sum(here)} of {len(here)}"
    if there:
        yield f"met at the pace of the machine where the bars were set: {sum(there)} of {len(there)}"
        yield from _control(paced)


def _control(paced: Medians) -> Iterator[str]:
    """The floor itself at that pace must be what it was there; else the pace changed too fast to tell."""
    for store, then in FLOOR_THEN.items():
        floor = paced.get(("W1", store, "", "steps_per_second"), {}).get(FLOOR)
        if floor is not None:
            yield f"control: at that pace the floor on {store} is {floor / then:.2f} of what it was there"


def _word(good: bool) -> str:
    return "met" if good else "MISSED"


def _other(bar: Bar, key: Key, found: Medians) -> float | None:
    if bar.or_at_least is None:
        return None
    return found.get((*key[:3], bar.or_at_least[0]), {}).get(OURS)
