"""Plans made while the tables were empty must still be good when they are full."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.domain.commit import Commit, LogRow, RunFilter
from stepwell.domain.fork.run_copy import RunCopy
from stepwell.domain.ids import RunId
from stepwell.domain.search import DecidedFilter, WaitFilter
from stepwell.domain.status import Status
from stepwell.store.postgres.pool.connection import ENGINE_SETTINGS, Connection, connect
from stepwell.store.postgres.pool.slots import ConnectionSlots
from stepwell.store.postgres.store import PostgresStore
from stepwell.testing.clock import FakeClock
from stepwell.testing.store_suite import Scene
from stepwell.testing.stores.scene import NEEDS, QUEUE

PARKED = 100_000
PENDING = 10_000

# Parked ones of our kind, pending ones of a kind that the worker does not have, and their runs and logs.
FILLED = f"""
INSERT INTO stepwell.tickets (
    run_id, path, queue, needs, workspace, lane, priority, started, ending, not_before, due_at,
    head, base, at, wakes, losses, lost_lease
)
SELECT 'q' || n, '', 'default', CASE WHEN n > {PARKED} THEN 'other@1' ELSE 'order@1' END, 'default', '', 0,
    n <= {PARKED}, false, 0, CASE WHEN n > {PARKED} THEN 0 ELSE 1e12 END, 1, 1, 0, 0, 0, ''
FROM generate_series(1, {PARKED + PENDING}) AS n;
INSERT INTO stepwell.runs (
    id, workspace, workflow, version, kind, status, input, key, digest, hash, queue, priority, lane,
    parent, parent_path, root, tags, trigger, where_at, created_at, test
)
SELECT 'q' || n, 'default', 'order', '1', 'function', 'suspended', '', 'key-q' || n, '', '', 'default', 0, '',
    '', '', '', '', '', '', n, false
FROM generate_series(1, {PARKED}) AS n;
INSERT INTO stepwell.events (run_id, seq, kind, path, attempt, at, payload)
SELECT 'q' || n, 1, 'accepted', '', 0, 0, '' FROM generate_series(1, {PARKED}) AS n;
INSERT INTO stepwell.inbox (run_id, key, n, kind, name, payload, at)
SELECT 'q' || n, 'k', 1, 'signal', 'go', '', 0 FROM generate_series(1, {PARKED}) AS n;
INSERT INTO stepwell.waits (run_id, path, kind, name, key, since, what, opened_at)
SELECT 'q' || n, 'w', 'event', 'paid', 'k' || n, 0, 'event', n FROM generate_series(1, {PARKED}) AS n;
INSERT INTO stepwell.waits (run_id, path, kind, name, key, since, what, opened_at)
SELECT 'q' || n, 'a', 'decision', 'ask', '', 0, 'approval', n FROM generate_series(1, {PENDING}) AS n;
INSERT INTO stepwell.decided_approvals (run_id, path, name, opened, received, ended, workspace, at)
SELECT 'q' || n, 'a', 'ask', 1, 1, 1, 'default', n FROM generate_series(1, {PARKED}) AS n;
INSERT INTO stepwell.run_terms (run_id, term, workspace, created_at)
SELECT 'q' || n, 'tag:["customer","' || (n % 10) || '"]', 'default', n
FROM generate_series(1, {PENDING}) AS n;
INSERT INTO stepwell.published_events (id, name, key, payload, at)
SELECT 'p' || n, 'paid', 'k' || n, '', n FROM generate_series(1, {PARKED}) AS n;
"""
LISTS = {
    "newest": RunFilter(),
    "of a workflow": RunFilter(workflow="order"),
    "of a status": RunFilter(statuses=[Status.SUSPENDED]),
    "of a rare status": RunFilter(statuses=[Status.FAILED, Status.RUNNING]),
    "of a trigger": RunFilter(trigger="schedule"),
    "of a parent": RunFilter(parent="q7"),
    "of a key": RunFilter(key="key-q7"),
    "of a prefix": RunFilter(prefix="key-q7"),
    "of an id": RunFilter(id_prefix="q77"),
    "of a tag": RunFilter(tags=[("customer", "7")]),
    "of a word": RunFilter(words=["refused"]),
    "of a time": RunFilter(since=50.0, until=60.0),
}
READ = "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0) FROM pg_stat_xact_user_tables"


class OneConnection(PostgresStore):
    """Does everything on one connection, in transactions that count the rows they read."""

    connection: Connection = None

    async def open(self, *, encoded: bool = False) -> None:
        await super().open(encoded=encoded)
        self.connection = await connect(self.db.address, ENGINE_SETTINGS)
        self.db.write = self._write  # type: ignore[method-assign]  # the test's own connection
        for slots in self.db.all_slots:
            slots.run = self._run  # type: ignore[method-assign]  # the same

    async def close(self) -> None:
        await self.connection.close()
        await super().close()

    async def _run(self, work: Callable[[Connection], Awaitable[Any]], **_: Any) -> Any:
        return await work(self.connection)

    async def _write(
        self, name: str, slots: ConnectionSlots, work: Callable[[Connection], Awaitable[Any]], **_: Any
    ) -> Any:
        return await work(self.connection)

    async def rows_read(self, verb: Awaitable[Any]) -> int:
        before = int(await self.connection.fetchval(READ))
        await verb
        return int(await self.connection.fetchval(READ)) - before


@pytest.mark.slow
@pytest.mark.req("K16")
def test_no_verb_reads_the_backlog(postgres_url: str) -> None:
    async def story() -> dict[str, int]:
        clock = FakeClock()
        store = OneConnection(postgres_url, clock=clock.time)
        await store.open()
        try:
            scene = Scene(store, clock)
            await store.connection.execute("VACUUM ANALYZE")  # now the planner knows that they are empty
            await every_verb(scene)
            await store.connection.execute("BEGIN; DELETE FROM stepwell.tickets")
            await store.connection.execute(FILLED)
            return await every_verb(scene)
        finally:
            await store.close()

    read = asyncio.run(story())

    assert {name: rows for name, rows in read.items() if rows > 150} == {}


async def every_verb(scene: Scene) -> dict[str, int]:
    """Each verb once, with how many rows it read."""
    store = scene.store
    assert isinstance(store, OneConnection)
    read: dict[str, int] = {}

    async def count(name: str, verb: Awaitable[Any]) -> None:
        read[name] = await store.rows_read(verb)

    parent = await scene.suspended()
    await count("start", store.start([scene.new_run() for _ in range(3)]))
    worker = await scene.worker()
    await count("claim", scene.claim_as(worker, limit=1))
    await count("claim nothing", scene.claim_as(worker, needs=("missing@1",)))
    await count("others", store.list_others((QUEUE, "gpu"), (NEEDS,)))
    claims = list(await scene.claim_as(worker, limit=2))
    await count("commit", store.commit([scene.member(c, scene.claimed(c)) for c in claims]))
    first, second = (claim._replace(head=2) for claim in claims)
    await count("deliver", scene.deliver(scene.signal(first.run_id)))
    await count("decide", store.deliver([scene.signal(first.run_id, "x"), scene.signal(first.run_id, "y")]))
    wakes = (await scene.ticket(first.run_id)).wakes
    await count("park", scene.ok(scene.member(first, scene.done("a"), then=scene.park(first, seen=wakes))))
    reaching: Commit = scene.member(
        second, scene.completed(), then=scene.finish(second), deliveries=[scene.signal(parent)]
    )
    await count("finish", scene.ok(reaching))
    await count("heartbeat", store.heartbeat(worker))
    await count("read", scene.run(parent))
    await count("log", scene.log(parent))
    await count("inbox", scene.inbox_keys(parent))
    await count("reap", store.reap())
    await count("cancel", store.cancel(first.run_id, "enough"))
    await count("restore", store.restore([ended(RunId(f"{parent} {n}")) for n in range(3)]))
    await count("start known", store.start([scene.new_run(key=f"{parent} {n}") for n in range(3)]))
    await count("find", store.find_run("default", f"{parent} 1"))
    await count("published", store.published("paid", "k5", since=0.0))
    return read


@pytest.mark.slow
@pytest.mark.req("K40")
def test_lists_and_counts_read_little_more_than_they_return(postgres_url: str) -> None:
    async def story() -> dict[str, int]:
        store = OneConnection(postgres_url, clock=FakeClock().time)
        await store.open()
        try:
            await store.connection.execute(FILLED)
            await store.connection.execute("VACUUM ANALYZE")
            await store.connection.execute("BEGIN")
            read: dict[str, int] = {}
            for name, filter in LISTS.items():
                read[name] = await store.rows_read(store.list_runs(replace(filter, limit=10)))
            read["count"] = await store.rows_read(store.count_runs("default"))
            read["waits"] = await store.rows_read(store.list_waits(WaitFilter(limit=10)))
            read["decided"] = await store.rows_read(store.list_decided(DecidedFilter(limit=10)))
            named = WaitFilter(whats=["approval"], name="ask", limit=10)
            read["named waits"] = await store.rows_read(store.list_waits(named))
            return read
        finally:
            await store.close()

    read = asyncio.run(story())

    assert {name: rows for name, rows in read.items() if rows > 150} == {}


def ended(run_id: RunId) -> RunCopy:
    """A run from elsewhere to restore; its key is its id."""
    texts = (
        "version",
        "kind",
        "hash",
        "digest",
        "lane",
        "parent",
        "parent_path",
        "root",
        "trigger",
        "where_at",
    )
    empty: dict[str, Any] = dict.fromkeys(texts, "")
    return RunCopy(
        id=run_id,
        key=run_id,
        workspace="default",
        workflow="order",
        queue="default",
        status=Status.COMPLETED,
        input=b"1",
        output=b"1",
        error=None,
        priority=0,
        tags=b"{}",
        created_at=0.0,
        started_at=0.0,
        ended_at=0.0,
        test=False,
        log=[LogRow(1, "accepted", "", 0, 0.0, b"{}")],
        **empty,
    )
