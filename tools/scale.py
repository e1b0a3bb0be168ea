"""What lists, counts and searches cost with many runs, and with few: `python -m tools.scale`.

Fills an SQLite file and a PostgreSQL database with rows, first a few, then many, and times what people ask
for through the store. Exit code 1: something costs more than `AT_MOST` times as much with many runs.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import apsw
import asyncpg

from stepwell.domain.commit import RunFilter
from stepwell.domain.search import WaitFilter
from stepwell.domain.status import Status
from stepwell.store.base import Store
from stepwell.store.postgres.store import PostgresStore
from stepwell.store.sqlite.store import SqliteStore
from tools.disk import disk_folder
from tools.postgres.cluster import Cluster

FEW, MANY = 10_000, 1_000_000
AT_MOST = 5.0  # times the cost with few
TIMES = 60
PAGE = 50

# Run n of N: 10 workflows, one in 20 failed, one in 25 is suspended and asks for an approval; every run has a
# key, one in 10 a customer's tag that it shares with N / 100 others, one in 20 a word of its error.
NUMBERS = "WITH RECURSIVE numbers (n) AS (SELECT :first UNION ALL SELECT n + 1 FROM numbers WHERE n < :last)"
STATUS = (
    "CASE WHEN n % 20 = 1 THEN 'failed' WHEN n % 25 = 2 THEN 'suspended' WHEN n % 100 = 3 THEN 'pending' "
    "ELSE 'completed' END"
)
RUNS = f"""
SELECT {{id}}, 'default', 'flow' || (n % 10), '1', 'function', '', {STATUS}, {{empty}}, {{key}}, '',
    'default', '', 0, '', '', {{id}}, {{empty}}, 'api', '', 1.7e9 + n, {{false}}
FROM numbers
"""
RUN_COLUMNS = (
    "id, workspace, workflow, version, kind, hash, status, input, key, digest, queue, lane, priority, "
    'parent, parent_path, root, tags, "trigger", where_at, created_at, test'
)
TAGS = """
SELECT {id}, 'tag:["customer","' || (n % 100) || '"]', 'default', 1.7e9 + n
FROM numbers
WHERE n % 10 = 0
"""
WORDS = "SELECT {id}, 'word:refused', 'default', 1.7e9 + n FROM numbers WHERE n % 20 = 1"
TICKETS = """
SELECT {id}, '', 'default', 'flow' || (n % 10) || '@1', 'default', '', 0, {yes}, {no}, 0, 1e12, 1, 1,
    1.7e9 + n, 0, 0, ''
FROM numbers
WHERE n % 25 = 2 AND n % 20 <> 1
"""
TICKET_COLUMNS = (
    "run_id, path, queue, needs, workspace, lane, priority, started, ending, not_before, due_at, head, "
    "base, at, wakes, losses, lost_lease"
)
WAITS = """
SELECT {id}, 'ask#1', 'decision', 'ask', '', 0, 'default', 'approval', 1, 1.7e9 + n
FROM numbers
WHERE n % 25 = 2 AND n % 20 <> 1
"""
WAIT_COLUMNS = "run_id, path, kind, name, key, since, workspace, what, seq, opened_at"
TABLES: tuple[tuple[str, str, str], ...] = (
    ("runs", RUN_COLUMNS, RUNS),
    ("run_terms", "run_id, term, workspace, created_at", TAGS),
    ("run_terms", "run_id, term, workspace, created_at", WORDS),
    ("tickets", TICKET_COLUMNS, TICKETS),
    ("waits", WAIT_COLUMNS, WAITS),
)

Ask = Callable[[Store], Awaitable[Any]]
QUESTIONS: Mapping[str, Ask] = {
    "list page": lambda store: store.list_runs(RunFilter(limit=PAGE)),
    "page far below": lambda store: store.list_runs(RunFilter(limit=PAGE, before="1700000500.0/f")),
    "by workflow": lambda store: store.list_runs(RunFilter(workflow="flow3", limit=PAGE)),
    "by status": lambda store: store.list_runs(RunFilter(statuses=[Status.FAILED], limit=PAGE)),
    "by rare status": lambda store: store.list_runs(RunFilter(statuses=[Status.PENDING], limit=PAGE)),
    "by time": lambda store: store.list_runs(RunFilter(since=1.7e9 + 100, until=1.7e9 + 900, limit=PAGE)),
    "by tag": lambda store: store.list_runs(RunFilter(tags=[("customer", "70")], limit=PAGE)),
    "by key": lambda store: store.list_runs(RunFilter(key="order-777", limit=PAGE)),
    "by key prefix": lambda store: store.list_runs(RunFilter(prefix="order-77", limit=PAGE)),
    "by words of the error": lambda store: store.list_runs(RunFilter(words=["refused"], limit=PAGE)),
    "counts": lambda store: store.count_runs("default"),
    "approvals": lambda store: store.list_waits(WaitFilter(whats=["approval"], limit=PAGE)),
}

Costs = dict[str, float]  # milliseconds by question


def fill_sqlite(path: str, first: int, last: int) -> None:
    connection = apsw.Connection(path)
    words = {
        "id": "printf('%032x', n)",
        "key": "'order-' || n",
        "empty": "x''",
        "false": "0",
        "yes": "1",
        "no": "0",
    }
    connection.execute("PRAGMA synchronous = OFF")
    with connection:
        for table, columns, rows in TABLES:
            text = f"{NUMBERS} INSERT INTO {table} ({columns}) " + rows.format(**words)
            connection.execute(text, {"first": first, "last": last})
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


async def fill_postgres(url: str, first: int, last: int) -> None:
    connection = await asyncpg.connect(url)
    words = {
        "id": "lpad(to_hex(n), 32, '0')",
        "key": "'order-' || n",
        "empty": "''::bytea",
        "false": "false",
        "yes": "true",
        "no": "false",
    }
    try:
        for table, columns, rows in TABLES:
            numbers = f"WITH numbers AS (SELECT generate_series({first}::bigint, {last}) AS n)"
            await connection.execute(
                f"INSERT INTO stepwell.{table} ({columns}) {numbers} {rows.format(**words)}"
            )
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


async def costs(store: Store) -> Costs:
    """The lower quartile of each question, after some that nobody times: other work only makes it slower."""
    found: Costs = {}
    for name, ask in QUESTIONS.items():
        seconds = []
        for number in range(TIMES + 3):
            began = time.perf_counter()
            await ask(store)
            if number >= 3:
                seconds.append(time.perf_counter() - began)
        found[name] = statistics.quantiles(seconds)[0] * 1000
    return found


async def measure_sqlite(few: int, many: int) -> tuple[Costs, Costs]:
    with tempfile.TemporaryDirectory(prefix="stepwell-scale-", dir=disk_folder()) as folder:
        path = str(Path(folder) / "scale.db")
        both: list[Costs] = []
        for first, last in ((1, few), (few + 1, many)):
            store = SqliteStore(path)
            await store.open()
            await store.close()
            fill_sqlite(path, first, last)
            await store.open()
            try:
                both.append(await costs(store))
            finally:
                await store.close()
        return both[0], both[1]


async def measure_postgres(few: int, many: int) -> tuple[Costs, Costs]:
    with Cluster(settings={"synchronous_commit": "off"}) as cluster:
        url = cluster.databases.create()
        both: list[Costs] = []
        for first, last in ((1, few), (few + 1, many)):
            store = PostgresStore(url)
            await store.open()
            await fill_postgres(url, first, last)
            try:
                await store.reap()  # as the sweep of a worker does
                both.append(await costs(store))
            finally:
                await store.close()
        return both[0], both[1]


def report(store: str, few: Costs, many: Costs) -> bool:
    """Print the figures; True if nothing costs too much."""
    print(f"\n{store:<24}{'few, ms':>10}{'many, ms':>10}{'many/few':>10}")
    for name in QUESTIONS:
        ratio = many[name] / few[name]
        print(
            f"{name:<24}{few[name]:>10.2f}{many[name]:>10.2f}{ratio:>10.2f}{'  TOO MUCH' * (ratio > AT_MOST)}"
        )
    return all(many[name] <= AT_MOST * few[name] for name in QUESTIONS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.scale", description=__doc__)
    parser.add_argument("--few", type=int, default=FEW)
    parser.add_argument("--many", type=int, default=MANY)
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    options = parser.parse_args()
    print(f"{options.few:,} runs, then {options.many:,}; at most {AT_MOST:g} x")
    good = True
    for name in options.stores:
        began = time.monotonic()
        measure = measure_sqlite if name == "sqlite" else measure_postgres
        good &= report(name, *asyncio.run(measure(options.few, options.many)))
        print(f"{'':<24}{time.monotonic() - began:>10.0f} s in all")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
