"""kill -9 inside a machine's transitions, at failpoints: a transition happened completely or not at all."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from stepwell import Engine, RunEvent, failpoints
from tests.effort import rotating
from tests.faults.machine_work import DOCUMENTS, EFFECTS, PLACES, STATES
from tests.faults.victims import Plan, Victims
from tools.postgres.databases import Databases

COMMITS = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18)  # of 24 or more, all over the life of both runs
# Transactions that concern no run of a machine; test_failpoint_kills.py reaches them.
ELSEWHERE = (
    "put_trigger.",
    "drop_trigger.",
    "fire_due.",
    "advance_trigger.",
    "secrets.",
    "collections.",
    "records.",
)
POINTS = rotating(
    [
        *((name, 1) for name in sorted(failpoints.NAMES) if not name.startswith(ELSEWHERE)),
        *((f"commit.{moment}", hit) for moment in ("mid", "after") for hit in COMMITS),
        *((f"claim.{moment}", hit) for moment in ("mid", "after") for hit in (2, 3)),
    ]
)
PLANS = [
    Plan(point, hit, number, "commit.after" if point.startswith("reap.") else "")
    for number, (point, hit) in enumerate(POINTS)
]
ALONE = ("reap.", "purge.", "fan_out.")  # other processes on the same database would do it, or suffer from it
SHARED = 12  # databases for the rest


class Snapshot(NamedTuple):
    """One run as a client sees it."""

    events: list[RunEvent]
    place: str = ""
    state: Any = None
    documents: Any = None


async def snapshot(engine: Engine, key: str) -> Snapshot:
    run = await engine.find(key)
    if run is None:
        return Snapshot([])
    events = [event async for event in run.events()]
    checkpoint = (await run.state()).checkpoint
    if checkpoint is None:
        return Snapshot(events)
    documents = {d.name: msgspec.json.decode(d.value) for d in await run.documents()}
    return Snapshot(events, checkpoint.place, msgspec.json.decode(checkpoint.state), documents)


async def snapshots(wanted: list[tuple[str, Plan]]) -> list[dict[str, Snapshot]]:
    results: dict[Plan, dict[str, Snapshot]] = {}
    for url in sorted({url for url, _ in wanted}):
        async with Engine(url, worker=False) as client:
            for plan in [plan for where, plan in wanted if where == url]:
                results[plan] = {
                    key: await snapshot(client, f"{key}/{plan.queue}") for key in ("booking", "stopped")
                }
    return [results[plan] for _, plan in wanted]


def violations(run: Snapshot) -> Iterator[str]:
    """Place, state and documents are those of the last completed transition, never of half a transition."""
    done = [event.data for event in run.events if event.kind == "transition_completed"]
    if [d["version"] for d in done] != list(range(1, len(done) + 1)):
        yield f"checkpoints {[d['version'] for d in done]}"
    if [d["state"] for d in done] != STATES[: len(done)]:
        yield f"states {[d['state'] for d in done]}"
    if done and (run.place, run.state, run.documents) != (
        PLACES[len(done) - 1],
        STATES[len(done) - 1],
        DOCUMENTS[len(done) - 1],
    ):
        yield f"after {len(done)} transitions it shows {run.place} {run.state} {run.documents}"
    recorded = Counter(event.path for event in run.events if event.kind == "step_completed")
    if any(count > 1 for count in recorded.values()):
        yield f"recorded twice: {recorded}"


def end_violations(runs: dict[str, Snapshot]) -> Iterator[str]:
    booking, stopped = runs["booking"], runs["stopped"]
    if (booking.place, booking.events[-1].kind) != ("end", "completed"):
        yield f"ended as {[event.kind for event in booking.events]}"
    if (stopped.place, stopped.events[-1].kind) != ("work", "cancelled"):
        yield f"stopped as {[event.kind for event in stopped.events]}"


def repeat_violations(
    plan: Plan, runs: dict[str, Snapshot], effects: Counter[tuple[str, str]]
) -> Iterator[str]:
    """One lost owner explains one repeat of an inner step, not more."""
    kills = 2 if plan.before else 1
    for run in runs.values():
        losses = sum(event.kind == "lease_lost" for event in run.events)
        for (run_id, path), times in effects.items():
            if run_id == run.events[0].data["root"] and times > 1 + max(kills, losses):
                yield f"{path} ran {times} times, {losses} owners were lost"


def play(databases: Iterator[str], folder: Path) -> None:
    shared = [next(databases) for _ in range(SHARED)]
    wanted = [
        (next(databases) if plan.point.startswith(ALONE) else shared[plan.number % SHARED], plan)
        for plan in PLANS
    ]
    victims = Victims("tests.faults.machine_work", folder, **{EFFECTS: str(folder / "effects")})
    results: dict[str, list[str]] = {}

    victims.kill(wanted)
    for plan, runs in zip(PLANS, asyncio.run(snapshots(wanted)), strict=True):
        results[f"{plan.name} killed"] = [text for run in runs.values() for text in violations(run)]
    victims.finish(wanted)

    lines = (folder / "effects").read_text().splitlines()
    effects = Counter((run, path) for run, path, _ in (line.split() for line in lines))
    for plan, runs in zip(PLANS, asyncio.run(snapshots(wanted)), strict=True):
        results[f"{plan.name} finished"] = [
            *(text for run in runs.values() for text in violations(run)),
            *end_violations(runs),
            *repeat_violations(plan, runs, effects),
        ]
    wrong = {name: texts for name, texts in results.items() if texts}
    assert not wrong, "\n".join(f"{name}: {texts}" for name, texts in wrong.items())


@pytest.mark.slow
@pytest.mark.req("M3", "M9", "R2", "K24", "K25")
def test_sqlite_machine_survives_a_kill_at_every_failpoint(tmp_path: Path) -> None:
    play((str(tmp_path / f"{n}.db") for n in count()), tmp_path)


@pytest.mark.slow
@pytest.mark.req("M3", "M9", "R2", "K24", "K25")
def test_postgres_machine_survives_a_kill_at_every_failpoint(
    postgres_databases: Databases, tmp_path: Path
) -> None:
    database = postgres_databases.create()

    play((f"{database}?schema=machine{n}" for n in count()), tmp_path)

    postgres_databases.drop(database)
