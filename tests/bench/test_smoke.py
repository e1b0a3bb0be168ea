"""W1 to W8 and W11 on a small scale: the measured code works and gives right results on both stores.

No absolute time is asserted. Where speed is the promise, something is counted instead, or two things
are timed side by side.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench import floor
from bench.bars import BARS, at_that_pace, verdicts
from bench.contest import ROOT, Medians, medians
from bench.measure import QUICK, Sizes, Store, Task
from bench.pace import pace_of
from bench.run import WORKS as RUN
from bench.stepwell_bench import WORKS
from bench.works import (
    fanning,
    footprint,
    graphs,
    latency,
    long_run,
    machines,
    sleeping,
    starting,
    throughput,
)
from bench.works.figures import Figures
from tools.postgres.databases import Databases

FLOOR_SHARE = 0.15  # below it somebody added a round trip
TRANSITION_SHARE = 0.6  # of the steps; the bars say 0.8, and a busy machine is not exact
NODE_SHARE = 0.4  # of the steps a second of functions
TRIES = 5

TINY = replace(
    QUICK,
    runs=20,
    at_once=10,
    latencies=5,
    warm_up=2,
    starts=20,
    batches=2,
    parallel=50,
    long_steps=60,
    window=20,
    sleepers=100,
    lead=2.5,
    spread=0.5,
    fleet_runs=40,
    imports=1,
)

Work = Callable[[str, Sizes], Awaitable[list[Figures]]]


class Places:
    """New databases of one kind of store."""

    def __init__(self, store: Store, folder: Path, databases: Callable[[], Databases]) -> None:
        self.store = store
        self._folder = folder
        self._databases = databases
        self._made: list[str] = []

    def new(self) -> str:
        if self.store == "sqlite":
            return str(self._folder / f"{len(list(self._folder.iterdir()))}.db")
        url = self._databases().create()
        self._made.append(url)
        return url

    def drop(self) -> None:
        for url in self._made:
            self._databases().drop(url)


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Places]:
    found = Places(request.param, tmp_path, lambda: request.getfixturevalue("postgres_databases"))
    yield found
    found.drop()


def measured(work: Work, place: str, sizes: Sizes = TINY) -> dict[str, dict[str, float]]:
    """Figures by mode. The works themselves assert that every result is right."""
    found = asyncio.run(_within(work(place, sizes)))
    return {figures.mode: dict(figures.values) for figures in found}


async def _within(work: Awaitable[list[Figures]]) -> list[Figures]:
    async with asyncio.timeout(120):
        return await work


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.req("W1")
def test_steps_stay_near_the_floor(places: Places) -> None:
    """The best of a few tries, each beside the floor in the same second: other load hits both."""
    sizes = replace(QUICK, runs=100)
    shares: list[float] = []
    for _ in range(TRIES):
        asked = Task(who="floor", work="W1", store=places.store, place=places.new(), sizes=sizes)
        below, _ = asyncio.run(floor.rate(asked))
        shares.append(measured(throughput.one_process, places.new(), sizes)[""]["steps_per_second"] / below)
        if shares[-1] >= FLOOR_SHARE:
            return
    pytest.fail(f"{max(shares):.2f} of the floor at best; {FLOOR_SHARE} is the least")


@pytest.mark.slow
@pytest.mark.req("W2")
def test_latency_is_measured_here_and_through_the_queue(places: Places) -> None:
    found = measured(latency.direct_and_queued, places.new())

    assert found.keys() == {"direct", "queue"}
    assert all(0 < figures["p50_ms"] <= figures["p99_ms"] for figures in found.values())


@pytest.mark.slow
@pytest.mark.req("W3")
def test_starting_is_measured_one_by_one_and_in_batches(places: Places) -> None:
    found = measured(starting.one_by_one_and_batch, places.new())

    assert found.keys() == {"one by one", "batch"}


@pytest.mark.slow
@pytest.mark.req("W4")
def test_parallel_steps_and_children_are_measured(places: Places) -> None:
    steps = measured(fanning.parallel_steps, places.new())
    children = measured(fanning.child_runs, places.new())

    assert steps.keys() == {"gather", "map"}
    assert children[""]["seconds"] > 0


@pytest.mark.slow
@pytest.mark.req("W5")
def test_sleepers_all_wake_and_none_wakes_early(places: Places) -> None:
    found = measured(sleeping.naps, places.new())[""]

    assert found["p50_ms"] > 0
    assert found.keys() == {"asleep_s", "p50_ms", "p99_ms", "memory_growth_mb"}


@pytest.mark.slow
@pytest.mark.req("W6")
def test_two_workers_share_the_runs(places: Places) -> None:
    found = measured(throughput.two_processes, places.new())[""]

    assert found["scaling"] == pytest.approx(found["steps_per_second"] / found["steps_per_second_alone"])


@pytest.mark.slow
@pytest.mark.req("W7")
def test_long_run_and_its_recovery_after_a_kill_are_measured(places: Places) -> None:
    steady = measured(long_run.flatness, places.new())[""]
    recovered = measured(long_run.recovery, places.new())[""]

    assert steady["flatness"] > 0
    assert recovered["seconds"] > 0


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.req("W11")
def test_a_transition_costs_about_as_much_as_a_step(places: Places) -> None:
    """The best of a few tries, each beside the steps in the same second: other load hits both."""
    sizes = replace(QUICK, runs=100)
    shares: list[float] = []
    for _ in range(TRIES):
        steps = measured(throughput.one_process, places.new(), sizes)[""]["steps_per_second"]
        shares.append(
            measured(machines.transitions, places.new(), sizes)[""]["transitions_per_second"] / steps
        )
        if shares[-1] >= TRANSITION_SHARE:
            return
    pytest.fail(f"{max(shares):.2f} of the steps at best; {TRANSITION_SHARE} is the least")


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.req("W9", "W10")
def test_graphs_and_their_loops_are_measured(places: Places) -> None:
    """A node costs little more than a step: the best of a few tries, beside the steps in the same second."""
    sizes = replace(QUICK, runs=100)
    looped = measured(graphs.loops, places.new(), replace(TINY, items=500))
    for mode in ("", "remote"):
        assert looped[mode]["seconds"] > 0
        assert looped[mode]["double_fires"] == 0
    shares: list[float] = []
    for _ in range(TRIES):
        steps = measured(throughput.one_process, places.new(), sizes)[""]["steps_per_second"]
        nodes = measured(graphs.many_graphs, places.new(), sizes)[""]["nodes_per_second"]
        shares.append(nodes / steps)
        if shares[-1] >= NODE_SHARE:
            return
    pytest.fail(f"{max(shares):.2f} of the steps at best; {NODE_SHARE} is the least")


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.req("W8")
def test_import_costs_little_beside_the_standard_library() -> None:
    """What any program with coroutines and JSON pays anyway, times a generous factor; best of a few."""
    anyway = "import asyncio, dataclasses, inspect, json, logging, socket"
    factor = 6.0
    ratios: list[float] = []
    for _ in range(TRIES):
        ratios.append(footprint.import_ms(footprint.NAMES, 3) / max(footprint.import_ms(anyway, 3), 1.0))
        if ratios[-1] < factor:
            return
    pytest.fail(f"{min(ratios):.1f} times the standard library at best; {factor} is the most")


@pytest.mark.req("W8")
def test_import_loads_nothing_heavy() -> None:
    heavy = ["apsw", "asyncpg", "cryptography", "jsonschema_rs", "multiprocessing", "sqlite3"]
    code = f"{footprint.NAMES}; import json, sys; print(json.dumps([m for m in {heavy} if m in sys.modules]))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert json.loads(done.stdout) == []


def test_every_bar_belongs_to_a_work_that_is_run() -> None:
    assert set(RUN) == set(WORKS) == {bar.work for bar in BARS}


def test_verdict_says_what_is_met_and_what_is_missed() -> None:
    found: Medians = {
        ("W1", "sqlite", "", "steps_per_second"): {"stepwell": 12_000.0, "floor": 40_000.0},
        ("W7r", "sqlite", "", "seconds"): {"stepwell": 0.3},
        ("W6", "postgres", "", "scaling"): {"stepwell": 1.0},
        ("W6", "postgres", "", "steps_per_second"): {"stepwell": 13_000.0},
    }

    lines = {line.split("  ")[0]: line for line in verdicts(found)}

    assert "met" in lines["W1"]
    assert "0.30 x" in lines["W1"]
    assert "MISSED" in lines["W7r"]
    assert "met: 2 of 3" in lines


def test_figures_are_also_judged_at_the_pace_of_the_machine_where_the_bars_were_set() -> None:
    """Half as fast: rates count twice, times half, memory as it is."""
    machine: dict[str, object] = {"who": "stepwell", "store": "sqlite", "pace": 0.5, "pace_in_turn": 0.25}
    lines: list[dict[str, object]] = [
        {**machine, "work": "W1", "mode": "", "steps_per_second": 6_000},
        {**machine, "work": "W3", "mode": "one by one", "runs_per_second": 700},
        {**machine, "work": "W5", "mode": "", "asleep_s": 8.0, "memory_growth_mb": 24},
    ]

    paced = at_that_pace(lines)
    told = list(verdicts(medians(lines), paced))

    assert {key[3]: by_name["stepwell"] for key, by_name in paced.items()} == {
        **{"steps_per_second": 12_000, "runs_per_second": 2_800},
        **{"asleep_s": 4.0, "memory_growth_mb": 24},
    }
    assert told[-2:] == [
        "met: 1 of 4",
        "met at the pace of the machine where the bars were set: 3 of 4",
    ]


def test_pace_is_measured_on_both_stores(places: Places) -> None:
    found = pace_of(places.store, places.new())

    assert found.many > 0
    assert found.in_turn > 0
