"""kill -9 while events start runs: each event starts exactly one run of each of its triggers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine
from stepwell.failpoints import MOMENTS
from tests.effort import rotating
from tests.faults.triggered_work import EVENTS, event_of
from tests.faults.victims import Plan, Victims
from tools.postgres.databases import Databases

# What writes between the call of a client and the end of the runs that its event starts.
POINTS = [
    *((f"{transaction}.{moment}", 1) for transaction in ("emit", "start", "fan_out") for moment in MOMENTS),
    *((f"advance_trigger.{moment}", hit) for moment in MOMENTS for hit in (1, 3)),
    *((f"{transaction}.{moment}", 3) for transaction in ("emit", "fan_out", "claim") for moment in MOMENTS),
]
PLANS = [Plan(point, hit, number) for number, (point, hit) in enumerate(rotating(POINTS))]


async def started(wanted: list[tuple[str, Plan]]) -> dict[str, Any]:
    """By plan: how often each event started a run of each trigger, and how many events were refused."""
    found: dict[str, Any] = {}
    for url, plan in wanted:
        async with Engine(url, worker=False) as client:
            keys = Counter(run.key for run in await client.runs(trigger="event", limit=1000))
            refusing = await client.triggers.get(f"{event_of(plan)}-refusing")
            found[plan.name] = (len(keys), set(keys.values()), refusing.refused)
    return found


def play(databases: Iterator[str], folder: Path) -> None:
    wanted = [(next(databases), plan) for plan in PLANS]  # of its own: another would fan its events out
    victims = Victims("tests.faults.triggered_work", folder)

    victims.kill(wanted)
    victims.finish(wanted)

    found = asyncio.run(started(wanted))
    assert found == {plan.name: (2 * EVENTS, {1}, EVENTS) for plan in PLANS}


@pytest.mark.slow
@pytest.mark.req("T3", "K17", "N4")
def test_an_event_on_sqlite_starts_one_run_of_each_trigger(tmp_path: Path) -> None:
    play((str(tmp_path / f"{n}.db") for n in count()), tmp_path)


@pytest.mark.slow
@pytest.mark.req("T3", "K17", "N4")
def test_an_event_on_postgres_starts_one_run_of_each_trigger(
    postgres_databases: Databases, tmp_path: Path
) -> None:
    database = postgres_databases.create()

    play((f"{database}?schema=events{n}" for n in count()), tmp_path)

    postgres_databases.drop(database)
