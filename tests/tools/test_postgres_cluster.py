"""The private PostgreSQL that tests, benches and fault drills stand on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import pytest

from tools.postgres import processes
from tools.postgres.cluster import Cluster
from tools.postgres.databases import Databases, name_of

ROOT = Path(__file__).resolve().parents[2]
GONE_SECONDS = 20.0

pytestmark = pytest.mark.slow


async def value(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def test_cluster_keeps_what_it_acknowledges(postgres_cluster: Cluster) -> None:
    url = postgres_cluster.url()

    settings = {name: asyncio.run(value(url, f"SHOW {name}")) for name in ("fsync", "synchronous_commit")}

    assert settings == {"fsync": "on", "synchronous_commit": "on"}


def test_committed_rows_survive_a_kill(postgres_cluster: Cluster) -> None:
    url = postgres_cluster.databases.create()
    asyncio.run(value(url, "CREATE TABLE kept AS SELECT 42 AS answer"))
    before = postgres_cluster.pid

    postgres_cluster.kill()
    gone = not processes.running(before)
    postgres_cluster.start()

    assert gone
    assert asyncio.run(value(url, "SELECT answer FROM kept")) == 42


def test_cluster_answers_after_a_clean_stop(postgres_cluster: Cluster) -> None:
    postgres_cluster.stop()
    postgres_cluster.start()

    assert asyncio.run(value(postgres_cluster.url(), "SELECT 1")) == 1


def test_each_test_gets_a_database_of_its_own(postgres_databases: Databases, postgres_url: str) -> None:
    other = postgres_databases.create()
    asyncio.run(value(other, "CREATE TABLE mine AS SELECT 1 AS one"))

    seen = asyncio.run(value(postgres_url, "SELECT to_regclass('mine')::text"))

    postgres_databases.drop(other)
    assert seen is None


def test_a_database_can_be_a_copy_of_a_template(postgres_databases: Databases) -> None:
    template = postgres_databases.create()
    asyncio.run(value(template, "CREATE TABLE prepared AS SELECT 7 AS seven"))

    copy = postgres_databases.create(template=template)

    assert name_of(copy) != name_of(template)
    assert asyncio.run(value(copy, "SELECT seven FROM prepared")) == 7
    postgres_databases.drop(copy)
    postgres_databases.drop(template)


def test_databases_can_be_made_inside_a_running_loop(postgres_databases: Databases) -> None:
    async def inside() -> str:
        return postgres_databases.create()

    url = asyncio.run(inside())

    assert asyncio.run(value(url, "SELECT current_database()")) == name_of(url)
    postgres_databases.drop(url)


def test_cluster_does_not_outlive_a_killed_parent() -> None:
    program = (
        "import os, signal, time\n"
        "from tools.postgres.cluster import Cluster\n"
        "cluster = Cluster()\n"
        "cluster.start()\n"
        "print(cluster.pid, cluster._folder, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, folder = parent.stdout.readline().split()

    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()

    deadline = time.monotonic() + GONE_SECONDS
    while processes.running(int(pid)) or Path(folder).exists():
        assert time.monotonic() < deadline, "the server lingers"
        time.sleep(0.05)
