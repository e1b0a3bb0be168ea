"""Plan: everything that a seed decides before the first event. Extremes are drawn on purpose."""

from __future__ import annotations

import random
from dataclasses import dataclass

from stepwell.settings import Settings

WORKERS = 3
PHASE_SECONDS = 14.0  # faults happen in this time, then everything heals


@dataclass(slots=True, kw_only=True)
class Chances:
    """How likely each fault of a store call is; healing sets them to zero."""

    unavailable: float = 0.0  # refused before anything happened
    ambiguous: float = 0.0  # executed, answered with an error
    late: float = 0.0  # answered with an error, executed later
    duplicate: float = 0.0  # executed, and once more later
    hint_lost: float = 0.0


@dataclass(slots=True, kw_only=True)
class Plan:
    seed: int
    calm: bool  # no faults at all: nothing may be repeated
    settings: Settings
    slots: tuple[int, ...]
    batch: int
    look_seconds: float
    replay_always: bool
    shuffles: bool
    latency: float  # of a store call, one way
    tail: float  # chance of a much slower one
    slow_commits: bool
    skew: float  # how wrong the workers' clocks are
    chances: Chances
    crashes: int
    kills: int  # crashes exactly at a store call
    freezes: int
    outages: int
    stops: int  # graceful restarts
    runs: int


def plan_of(seed: int) -> Plan:
    rng = random.Random(f"plan/{seed}")
    calm = rng.random() < 0.15
    lease = rng.choice((1.5, 3.0, 3.0, 6.0))
    heartbeat = lease / rng.choice((2.5, 3.0, 4.0))
    settings = Settings(
        lease_seconds=lease,
        heartbeat_seconds=heartbeat,
        reap_seconds=rng.choice((0.5, 1.0)) * heartbeat,
        poll_seconds=rng.choice((1.0, 2.0, 3.0)),
        grace_seconds=5.0,
        keep_lease_seconds=rng.choice((0.01, 0.5, 6.0)),
        threads=1,
        workflow_threads=1,
        processes=1,
    )
    rate = rng.choice((0.0, 0.01, 0.03, 0.08))
    chances = Chances(
        unavailable=rate * rng.random(),
        ambiguous=rate * rng.random(),
        late=rate * rng.random(),
        duplicate=rng.choice((0.0, 0.0, 0.05, 0.3)),
        hint_lost=rng.choice((0.0, 0.2, 1.0)),
    )
    return Plan(
        seed=seed,
        calm=calm,
        settings=settings,
        slots=tuple(rng.choice((1, 2, 4, 100, 100)) for _ in range(WORKERS)),
        batch=rng.choice((1, 3, 500, 500)),
        look_seconds=rng.choice((0.1, 0.5, 1.0)),
        replay_always=rng.random() < 0.1,
        shuffles=rng.random() < 0.3,
        latency=rng.choice((0.0005, 0.002, 0.01)),
        tail=rng.choice((0.0, 0.02, 0.1)),
        slow_commits=rng.random() < 0.2,
        skew=rng.choice((0.0, 0.5, 60.0)),
        chances=Chances(hint_lost=chances.hint_lost) if calm else chances,
        crashes=0 if calm else rng.choice((0, 1, 2, 4)),
        kills=0 if calm else rng.choice((0, 1, 2, 4)),
        freezes=0 if calm else rng.choice((0, 0, 1, 2)),
        outages=0 if calm else rng.choice((0, 0, 0, 1)),
        stops=rng.choice((0, 0, 1)),
        runs=rng.choice((3, 4, 6)),
    )
