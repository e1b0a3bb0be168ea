"""kill -9 of workers under load: nothing lost, nothing recorded twice, every repeat explained."""

from __future__ import annotations

import asyncio

import pytest

from tests.faults.environment import Environment
from tests.faults.figures import figures, note
from tests.faults.fleet import LEASE_SECONDS, SWEEP_SECONDS
from tests.faults.storms import STORM_KILLS, STORM_RUNS, kill_storm, take_overs

SOON = LEASE_SECONDS + SWEEP_SECONDS + 1.0  # two busy cores
TRIES = 5
pytestmark = pytest.mark.alone


@pytest.mark.slow
@pytest.mark.req("R3", "K2", "K5", "K6", "F9")
def test_nothing_is_lost_or_recorded_twice_when_workers_are_killed(environment: Environment) -> None:
    with environment.fleet() as fleet:
        storm = asyncio.run(kill_storm(environment, fleet))

    note(figures("kill -9 every 0.5 to 3 s", environment.store, storm.evidence, storm.findings))
    assert storm.findings.violations == []
    assert len(storm.evidence.stories) >= STORM_RUNS >= 200
    assert storm.count("kill") >= STORM_KILLS
    assert set(environment.kept().values()) == {1}, "a transactional step's write is there exactly once"


@pytest.mark.slow
@pytest.mark.req("R3", "K5")
def test_the_runs_of_a_killed_worker_go_on_within_lease_and_sweep(environment: Environment) -> None:
    with environment.fleet() as fleet:
        storm, took = asyncio.run(take_overs(environment, fleet, kills=2, soon=SOON, tries=TRIES))

    findings = storm.findings
    note(figures("one kill at a time", environment.store, storm.evidence, findings))
    assert findings.violations == []
    assert min(took) <= SOON, took
