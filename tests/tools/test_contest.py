"""How figures of measured programs are gathered and compared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.contest import ROOT, advantage, medians, table
from bench.measure import Sizes, quantiles_ms, rates


def test_median_is_taken_for_each_contestant_and_figure() -> None:
    lines: list[dict[str, object]] = [
        {"who": who, "work": "W1", "store": "sqlite", "mode": "", "steps_per_second": figure, "load": 9.0}
        for who, figure in (("floor", 10), ("floor", 30), ("floor", 20), ("stepwell", 7))
    ]

    found = medians(lines)

    assert found == {("W1", "sqlite", "", "steps_per_second"): {"floor": 20, "stepwell": 7}}


@pytest.mark.parametrize(
    ("figure", "ours", "theirs", "times"),
    [
        ("steps_per_second", 200.0, 100.0, 2.0),
        ("steps_per_second_late", 50.0, 100.0, 0.5),
        ("p50_ms", 2.0, 6.0, 3.0),
    ],
)
def test_advantage_above_one_is_better_for_us(figure: str, ours: float, theirs: float, times: float) -> None:
    assert advantage(figure, ours, theirs) == times


def test_table_shows_how_many_times_better_we_are() -> None:
    found = {("W2", "postgres", "direct", "p50_ms"): {"stepwell": 2.0, "peer": 7.0}}

    lines = list(table(found, ["stepwell", "peer", "absent"]))

    assert "7.00 (3.50 x)" in lines[1]
    assert lines[1].rstrip().endswith("-")


def test_quantiles_are_milliseconds() -> None:
    assert quantiles_ms([number / 1000 for number in range(1, 101)]) == pytest.approx(
        {"p50_ms": 51.0, "p99_ms": 100.0}
    )


def test_rates_are_taken_early_and_late_in_a_long_run() -> None:
    slow_at_the_end = [number * 0.001 for number in range(900)] + [
        0.9 + number * 0.01 for number in range(100)
    ]

    found = rates(slow_at_the_end, Sizes())

    assert found == pytest.approx({"steps_per_second_early": 1000, "steps_per_second_late": 100})


@pytest.mark.slow
def test_floor_measures_on_a_fresh_file(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "bench.floor",
        "W1",
        "--store",
        "sqlite",
        "--quick",
        str(tmp_path / "floor.db"),
    ]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert '"steps_per_second"' in done.stdout
