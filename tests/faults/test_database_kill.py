"""kill -9 of all of PostgreSQL under load, several times, while the workers live on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.fleet import LedgerProcess
from tests.faults.stage import on_postgres
from tests.faults.storms import database_storm
from tools.postgres.cluster import Cluster


@pytest.mark.slow
@pytest.mark.req("R3", "K2", "K6")
def test_nothing_is_lost_or_recorded_twice_when_the_database_is_killed(
    postgres_cluster: Cluster, tmp_path: Path, ledger: LedgerProcess
) -> None:
    stage = on_postgres(postgres_cluster.databases.create(), tmp_path, ledger)

    with stage.fleet() as fleet:
        storm = asyncio.run(database_storm(stage, fleet, postgres_cluster, kills=4, runs=208))

    print(f"{len(storm.evidence.stories)} runs, {storm.count('database')} kills, {storm.seconds:.0f} s")
    print(f"repeats: {storm.findings.repeats_explained}, condemned: {storm.findings.condemned}")
    assert storm.findings.violations == []
    assert storm.count("database") == 4
    assert set(stage.kept().values()) == {1}
