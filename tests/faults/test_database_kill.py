"""kill -9 of all of PostgreSQL under load, several times, while the workers live on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest

from stepwell import Engine
from tests.faults.client import patiently, until
from tests.faults.environment import on_postgres
from tests.faults.figures import figures, note
from tests.faults.fleet import LedgerProcess
from tests.faults.storms import database_storm
from tests.faults.transactional_work import WORKFLOWS, keeping_slowly
from tools.postgres.cluster import Cluster

pytestmark = pytest.mark.alone


@pytest.mark.slow
@pytest.mark.req("R3", "K2", "K6")
def test_nothing_is_lost_or_recorded_twice_when_the_database_is_killed(
    postgres_cluster: Cluster, tmp_path: Path, ledger: LedgerProcess
) -> None:
    environment = on_postgres(postgres_cluster.databases.create(), tmp_path, ledger)

    try:
        with environment.fleet() as fleet:
            storm = asyncio.run(database_storm(environment, fleet, postgres_cluster, kills=4, runs=208))
    finally:
        postgres_cluster.start()  # for the other runs

    note(figures("kill -9 of PostgreSQL", "postgres", storm.evidence, storm.findings))
    assert storm.findings.violations == []
    assert storm.count("database") == 4
    assert set(environment.kept().values()) == {1}
    assert storm.findings.repeats_explained == 0, "no worker died, so nothing needed to run again"


async def is_in_a_transaction(url: str) -> bool:
    """Wait until a transactional step is in the middle of its work."""
    connection = await asyncpg.connect(url)
    try:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state = $2"
        return bool(await connection.fetchval(asked, "stepwell step", "idle in transaction"))
    finally:
        await connection.close()


@pytest.mark.slow
@pytest.mark.req("R3", "K14")
def test_a_transactional_step_outlives_the_database_under_it(
    postgres_cluster: Cluster, tmp_path: Path, ledger: LedgerProcess
) -> None:
    """The database's death is not the step's failure: it runs again, and its write is there once."""
    environment = on_postgres(postgres_cluster.databases.create(), tmp_path, ledger)

    async def story() -> list[int]:
        async with Engine(environment.url, workflows=WORKFLOWS, worker=False) as engine:
            runs = [await engine.start(keeping_slowly, n) for n in range(8)]
            await until(lambda: is_in_a_transaction(environment.url))
            await asyncio.to_thread(postgres_cluster.kill)
            await asyncio.to_thread(postgres_cluster.start)
            return [await patiently(lambda run=run: run.result(timeout=30.0)) for run in runs]  # type: ignore[misc]  # bound

    try:
        with environment.fleet("tests.faults.transactional_work") as fleet:
            fleet.ready(fleet.start())
            results = asyncio.run(story())
    finally:
        postgres_cluster.start()

    assert results == [n + 1 for n in range(8)]
    assert list(environment.kept().values()) == [1] * 8
