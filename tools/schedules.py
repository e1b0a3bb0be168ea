"""Many schedules at one instant, two schedulers, one of them killed: `python -m tools.schedules`.

Creates the schedules, starts two worker processes, kills one with SIGKILL in the middle, and waits until all
slots have their run. Prints how late the runs were started. Exit code 1: a slot has no run, or two.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import apsw
import asyncpg
import msgspec

from stepwell import Context, Engine, workflow
from stepwell.domain.commit import RunRow
from stepwell.domain.triggers.schedule import ScheduleSettings, slot_key
from tools.disk import disk_folder
from tools.postgres.cluster import Cluster

MANY = 50_000
AHEAD = 8.0  # seconds to write the schedules
PATIENCE = 900.0
WORKFLOW = "nightly"


@workflow(name=WORKFLOW)
async def nightly(ctx: Context, n: int = 0) -> int:
    return n


async def work(url: str) -> None:
    """A worker process. It serves another queue than the runs have: only starting them is measured."""
    await Engine(url, workflows=[nightly], queues=["elsewhere"]).serve(lambda: print("ready", flush=True))


COLUMNS = (
    "id, workspace, type, name, workflow, version, settings, start, matches, slot, next_at, origin, "
    "revision, created_at, created_by, updated_at, updated_by, state, last_run"
)


async def fill(url: str, count: int, at: float) -> None:
    """Write the schedules with one statement: through the client it would take minutes."""
    settings = msgspec.json.encode(ScheduleSettings(every=86_400.0, anchor=at, overlap="allow")).hex()
    start = b'{"input":1}'.hex()
    if url.startswith("postgres"):
        connection = await asyncpg.connect(url)
        await connection.execute(
            f"INSERT INTO stepwell.triggers ({COLUMNS}) "
            f"SELECT 's' || n, 'default', 'schedule', 'schedule-' || n, '{WORKFLOW}', '', '\\x{settings}', "
            f"'\\x{start}', '', {at}, {at}, '', 1, 0, '', 0, '', '\\x7b7d', '' "
            f"FROM generate_series(1, {count}) AS n"
        )
        await connection.close()
        return
    with apsw.Connection(url) as file:
        file.execute(
            f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) "
            f"INSERT INTO triggers ({COLUMNS}) "
            f"SELECT 's' || n, 'default', 'schedule', 'schedule-' || n, '{WORKFLOW}', '', x'{settings}', "
            f"x'{start}', '', {at}, {at}, '', 1, 0, '', 0, '', x'7b7d', '' FROM numbers"
        )


def begun(url: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.schedules", "--work", url],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


async def started(engine: Engine) -> int:
    return (await engine.counts()).total


async def measured(url: str, count: int) -> bool:
    async with Engine(url, workflows=[nightly], worker=False) as engine:
        workers = [begun(url), begun(url)]
        try:
            at = float(int(time.time() + AHEAD))
            await fill(url, count, at)
            engine.notifier.notify_work()
            return await watched(engine, workers, at, count)
        finally:
            for worker in workers:
                worker.kill()
                worker.communicate()  # closes its pipe, too


async def watched(engine: Engine, workers: list[subprocess.Popen[str]], at: float, many: int) -> bool:
    """Kill one worker when a third has started; wait for the rest, and check every slot."""
    limit, killed_at = time.monotonic() + PATIENCE, 0
    while (count := await started(engine)) < many and time.monotonic() < limit:
        if not killed_at and count >= many // 3:
            os.kill(workers[0].pid, signal.SIGKILL)
            killed_at = count
        await asyncio.sleep(0.05)
    rows: list[RunRow] = []
    before = ""
    while page := await engine.runs(key_prefix="sched/", limit=1000, before=before):
        rows += page
        before = page.next
        if not before:
            break
    keys, late = [row.key for row in rows], sorted(row.created_at - at for row in rows)
    expected = sorted(slot_key(f"s{number}", at) for number in range(1, many + 1))
    print(f"{len(keys):,} runs of {many:,} slots; one of two schedulers was killed after {killed_at:,}")
    if late:
        at_99 = late[int(len(late) * 0.99)]
        print(
            f"late: first {late[0]:.3f} s, median {statistics.median(late):.3f} s, 99 of 100 within "
            f"{at_99:.3f} s, last {late[-1]:.3f} s; {len(late) / max(late[-1], 1e-9):,.0f} starts/s"
        )
    return sorted(keys) == expected and killed_at > 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", metavar="URL", default="")
    parser.add_argument("--count", type=int, default=MANY)
    parser.add_argument("--store", choices=["sqlite", "postgres", "both"], default="both")
    options = parser.parse_args()
    if options.work:
        asyncio.run(work(options.work))
        return 0
    good = True
    if options.store in ("postgres", "both"):
        with Cluster() as cluster:
            print("PostgreSQL")
            good &= asyncio.run(measured(cluster.databases.create(), options.count))
    if options.store in ("sqlite", "both"):
        with tempfile.TemporaryDirectory(dir=disk_folder()) as folder:
            print("SQLite")
            good &= asyncio.run(measured(str(Path(folder) / "herd.db"), options.count))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
