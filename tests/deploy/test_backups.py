"""A backup taken under load, restored elsewhere: every run in it continues and ends with the right result."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell import Context, step, workflow
from stepwell.domain.status import Status
from tests.engines import Engines, until
from tools.postgres import account, binaries
from tools.postgres.databases import Databases

RUNS = 60


@step
async def add(total: int, number: int) -> int:
    await asyncio.sleep(0.01)
    return total + number


@workflow
async def summing(ctx: Context, count: int) -> int:
    total = 0
    for number in range(count):
        total = await ctx.step(add, total, number)
    return total


async def _backed_up(engines: Engines, command: list[str], restored: Engines, *restore: str) -> None:
    """Back up while runs move, finish them, restore the backup elsewhere and finish them there again."""
    async with engines.new(summing) as engine:
        runs = await engine.start_many(summing, [10] * RUNS)
        await until(lambda: _some_ended(engine))
        await asyncio.to_thread(subprocess.run, command, check=True)
        for run in runs:
            assert await run.result(60) == 45
    if restore:
        await asyncio.to_thread(subprocess.run, list(restore), check=True)

    async with restored.new(summing) as engine:
        copies = await engine.runs(limit=2 * RUNS)
        assert {run.id for run in copies} == {run.id for run in runs}
        assert [await engine.handle(run.id).result(60) for run in copies] == [45] * RUNS


async def _some_ended(engine: object) -> bool:
    return bool(await engine.runs(status=Status.COMPLETED, limit=1))  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.req("D6", "R5")
async def test_runs_of_a_sqlite_backup_continue(sqlite: Engines, tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    script = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('VACUUM INTO ?', sys.argv[2:])"
    command = [sys.executable, "-c", script, str(sqlite.database), str(target)]

    await _backed_up(sqlite, command, Engines("sqlite", str(target)))


@pytest.mark.slow
@pytest.mark.req("D6", "R6")
async def test_runs_of_a_postgres_backup_continue(
    postgres_url: str, postgres_databases: Databases, tmp_path: Path
) -> None:
    programs = binaries.find(account.choose())
    if not (programs / "pg_dump").exists() or "STEPWELL_TEST_DATABASE" in os.environ:
        pytest.skip("pg_dump of the same version is not there")
    target, dump = postgres_databases.create(), str(tmp_path / "backup.dump")
    try:
        await _backed_up(
            Engines("postgres", postgres_url),
            [str(programs / "pg_dump"), "--format=custom", f"--file={dump}", postgres_url],
            Engines("postgres", target),
            *[str(programs / "pg_restore"), f"--dbname={target}", dump],
        )
    finally:
        postgres_databases.drop(target)
