"""Storms: the scenarios under load; each returns the findings of the checks."""

from __future__ import annotations

import asyncio
import math
import os
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.faults.checks import Evidence, Findings, check, read_ledger, take_over_seconds, write_down
from tests.faults.client import Outside, gathered, opened
from tests.faults.environment import Environment
from tests.faults.fleet import LEASE_SECONDS, Fleet
from tests.faults.workload import SHAPES
from tools.postgres.cluster import Cluster

# Runs are started over this time; `make faults` makes it longer.
STORM_SECONDS = float(os.environ.get("STEPWELL_STORM_SECONDS", "14"))
STORM_RUNS = max(17, round(0.75 * STORM_SECONDS)) * len(SHAPES)
STORM_KILLS = int(STORM_SECONDS / 2.6)  # at least: one comes every 2.05 s on average
STORM_SECONDS_MAX = STORM_SECONDS + 180.0
CALM_RUNS = 2 * len(SHAPES)
RESTART_SECONDS = 0.3


@dataclass(slots=True)
class Outcome:
    """The outcome of a storm."""

    findings: Findings
    evidence: Evidence
    seconds: float

    def count(self, kind: str) -> int:
        return sum(fault.kind == kind for fault in self.evidence.faults)


async def _storm(
    environment: Environment,
    fleet: Fleet,
    runs: int,
    spread: float,
    strike: Callable[[], Awaitable[None]],
    *,
    endless: bool = True,
) -> Outcome:
    """Runs of every shape while `strike` injects faults, then some more in the calm after it (I17)."""
    began = time.monotonic()
    async with opened(environment.url) as engine:
        outside = Outside(engine, spread_seconds=spread)
        striking = asyncio.ensure_future(strike())
        try:
            async with asyncio.timeout(STORM_SECONDS_MAX):
                await outside.play(runs)
        except TimeoutError:
            pass  # the checks name the runs that did not end
        finally:
            if endless:
                striking.cancel()
            await asyncio.wait({striking})
        if not striking.cancelled():
            striking.result()
        await outside.play(CALM_RUNS, first=runs)
        evidence = await gathered(outside, fleet, environment.ledger)
    findings = check(evidence)
    write_down(environment.folder / "violations.txt", evidence, findings)
    return Outcome(findings, evidence, time.monotonic() - began)


async def kill_storm(
    environment: Environment, fleet: Fleet, *, runs: int = STORM_RUNS, seed: int = 1
) -> Outcome:
    """kill -9 of one of two workers every 0.5 to 3 s until all runs have ended.

    Both have begun by then: otherwise, on a slow machine, neither would ever get to work.
    """
    chance = random.Random(seed)

    async def strike() -> None:
        while True:
            await asyncio.sleep(0.5 + 2.5 * chance.random())
            for worker in fleet.workers:
                await asyncio.to_thread(fleet.ready, worker)
            fleet.kill(chance.choice(fleet.workers))
            await asyncio.sleep(RESTART_SECONDS)
            fleet.start()

    for _ in range(2):
        fleet.start()
    return await _storm(environment, fleet, runs, STORM_SECONDS, strike)


async def database_storm(
    environment: Environment, fleet: Fleet, cluster: Cluster, *, kills: int, runs: int
) -> Outcome:
    """kill -9 of all of PostgreSQL, several times, while the workers keep running."""

    async def strike() -> None:
        for n in range(kills):
            await asyncio.sleep(2.0)
            since = time.monotonic_ns()
            await asyncio.to_thread(cluster.kill)
            # One outage is longer than a lease: that must not look like the death of all workers.
            await asyncio.sleep(2 * LEASE_SECONDS if n == 1 else 0.3)
            await asyncio.to_thread(cluster.start)
            fleet.note("database", 0, since)
            assert not fleet.find_dead(), fleet.logs()

    for _ in range(2):
        fleet.ready(fleet.start())
    return await _storm(environment, fleet, runs, kills * 3.0, strike, endless=False)


async def take_overs(
    environment: Environment, fleet: Fleet, *, kills: int, soon: float, tries: int
) -> tuple[Outcome, list[float]]:
    """Kill one worker at a time, the one with most runs, and measure how long until its runs continue.

    More kills than wanted while all took long: a busy machine is slow now and then, a broken engine always.
    """
    began = time.monotonic()
    took: list[float] = []
    fleet.ready(fleet.start())
    slow = next(shape for shape in SHAPES if shape.name == "chain")
    async with opened(environment.url) as engine:
        outside = Outside(engine, spread_seconds=0.0)
        for n in range(tries):
            fleet.ready(fleet.start())
            await asyncio.sleep(LEASE_SECONDS)  # earlier changes of the fleet have settled by then
            before = len(read_ledger(environment.ledger.file))
            playing = asyncio.ensure_future(outside.play_shape(slow, range(n * 40, n * 40 + 40)))
            for _ in range(1000):  # until they are in the middle of it: 40 runs of 4 steps, begun and ended
                if len(read_ledger(environment.ledger.file)) >= before + 160:
                    break
                await asyncio.sleep(0.01)
            fleet.kill(fleet.busiest(environment.ledger))
            await playing
            evidence = await gathered(outside, fleet, environment.ledger)
            last = [story for story in evidence.stories if story.events[0].data["input"] >= n * 40]
            seconds = [one for story in last for one in take_over_seconds(story, evidence)]
            took.append(max(seconds, default=math.inf))
            if n + 1 >= kills and min(took) <= soon:
                break
    return Outcome(check(evidence), evidence, time.monotonic() - began), took
