"""kill -9 during compensation: each compensation is recorded once, last step first."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from stepwell import Engine, RunEvent
from tests.effort import rotating
from tests.faults.saga_work import DONE, EFFECTS
from tests.faults.victims import Plan, Victims
from tools.postgres.databases import Databases

# Every commit of both runs, from the first step to the end of the compensation.
COMMITS = 14
PLANS = [
    Plan(f"commit.{moment}", hit, number)
    for number, (hit, moment) in enumerate(
        rotating([(hit, moment) for hit in range(1, COMMITS + 1) for moment in ("mid", "after")])
    )
]
DATABASES = 4


async def histories(wanted: list[tuple[str, Plan]]) -> dict[str, list[RunEvent]]:
    results: dict[str, list[RunEvent]] = {}
    for url in sorted({url for url, _ in wanted}):
        async with Engine(url, worker=False) as client:
            for plan in [plan for where, plan in wanted if where == url]:
                for kind in ("function", "machine"):
                    run = await client.find(f"{kind}/{plan.queue}")
                    events = [] if run is None else [event async for event in run.events()]
                    results[f"{plan.name} {kind}"] = events
    return results


def violations(events: list[RunEvent], *, ended: bool) -> Iterator[str]:
    """Steps are in order; compensations in reverse order, each once, and none too early."""
    completed = [event for event in events if event.kind == "step_completed"]
    done = [e.data["result"] for e in completed if not e.path.startswith("compensate/")]
    undone = [e.data["result"] for e in completed if e.path.startswith("compensate/")]
    if tuple(done) != DONE[: len(done)]:
        yield f"did {done}"
    if tuple(undone) != DONE[::-1][: len(undone)]:
        yield f"undid {undone}"
    kinds = [event.kind for event in events]
    if undone and "compensation_started" not in kinds:
        yield "undone without a beginning"
    if ended and (kinds[-1], len(undone), kinds.count("compensation_completed")) != ("failed", 3, 1):
        yield f"ended as {kinds}"
    if kinds.count("compensation_started") > 1:
        yield "begun twice"


def repeated(events: list[RunEvent], effects: Counter[tuple[str, str]]) -> Iterator[str]:
    losses = sum(event.kind == "lease_lost" for event in events)
    run = events[0].data["root"]
    for what in (*DONE, *(f"un{done}" for done in DONE)):
        if not 1 <= effects[run, what] <= 1 + losses:
            yield f"{what} {effects[run, what]} times, {losses} owners were lost"


def play(databases: Iterator[str], folder: Path) -> None:
    urls = [next(databases) for _ in range(DATABASES)]
    wanted = [(urls[plan.number % DATABASES], plan) for plan in PLANS]
    victims = Victims("tests.faults.saga_work", folder, **{EFFECTS: str(folder / "effects")})

    victims.kill(wanted)
    killed = asyncio.run(histories(wanted))
    victims.finish(wanted)
    finished = asyncio.run(histories(wanted))

    effects = Counter(
        (run, what) for run, what in map(str.split, (folder / "effects").read_text().splitlines())
    )
    results = {f"{name} killed": list(violations(events, ended=False)) for name, events in killed.items()}
    for name, events in finished.items():
        results[f"{name} finished"] = [*violations(events, ended=True), *repeated(events, effects)]
    wrong = {name: texts for name, texts in results.items() if texts}
    assert not wrong, "\n".join(f"{name}: {texts}" for name, texts in wrong.items())
    undoing = [
        events
        for events in killed.values()
        if any(e.kind == "compensation_started" for e in events) and events[-1].kind != "failed"
    ]
    assert len(undoing) >= len(PLANS) // 4, "hardly any was killed while it undid something"


@pytest.mark.slow
@pytest.mark.req("K27", "R2")
def test_sqlite_undoes_each_step_once_although_it_is_killed(tmp_path: Path) -> None:
    play((str(tmp_path / f"{n}.db") for n in count()), tmp_path)


@pytest.mark.slow
@pytest.mark.req("K27", "R2")
def test_postgres_undoes_each_step_once_although_it_is_killed(
    postgres_databases: Databases, tmp_path: Path
) -> None:
    database = postgres_databases.create()

    play((f"{database}?schema=saga{n}" for n in count()), tmp_path)

    postgres_databases.drop(database)
