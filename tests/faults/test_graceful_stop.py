"""SIGTERM under load: unstarted work is released at once, steps end, exit code 0, no effect twice."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.faults.checks import check
from tests.faults.client import Outside, gathered, opened
from tests.faults.environment import Environment
from tests.faults.figures import figures, note
from tests.faults.fleet import Fleet
from tests.faults.workload import SHAPES

STOP_SECONDS = 8.0  # less than the grace time; the longest step takes a third of a second
LONG = {"STEPWELL_LEASE_SECONDS": "60"}  # so that waiting for a lease shows


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.req("K34", "R3")
def test_a_stopped_worker_gives_its_work_back_and_repeats_nothing(environment: Environment) -> None:
    async def story(fleet: Fleet) -> None:
        fleet.ready(fleet.start(**LONG))
        async with opened(environment.url) as engine:
            outside = Outside(engine, spread_seconds=3.0)
            playing = asyncio.ensure_future(outside.play(8 * len(SHAPES)))
            for _ in range(3):
                await asyncio.sleep(0.8)
                next_one = fleet.start(**LONG)
                await asyncio.to_thread(fleet.ready, next_one)
                began = time.monotonic()
                code = await asyncio.to_thread(fleet.stop, fleet.workers[0])
                assert code == 0, fleet.logs()
                assert time.monotonic() - began < STOP_SECONDS
            async with asyncio.timeout(40.0):
                await playing
            evidence = await gathered(outside, fleet, environment.ledger)

        findings = check(evidence)  # no fault was noted: any repeated effect is a violation
        made = figures("SIGTERM", environment.store, evidence, findings)
        made.faults = {"workers stopped by SIGTERM": 3}
        note(made)
        assert findings.violations == []
        kinds = {event.kind for story in evidence.stories for event in story.events}
        assert "lease_lost" not in kinds, "nobody had to wait for a lease"
        assert "WARNING" not in fleet.logs()

    with environment.fleet() as fleet:
        asyncio.run(story(fleet))
