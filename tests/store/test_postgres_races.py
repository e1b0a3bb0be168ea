"""Races that an obvious SQL would lose, each against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from stepwell.domain.commit import Beat, Claim, ClaimRequest, Commit, Finish, Outcome, Park, WorkerInfo
from stepwell.domain.ids import LeaseId, RunId, WorkerId
from stepwell.domain.status import Status
from stepwell.store.postgres.store import PostgresStore
from stepwell.system import SystemClock, SystemIds
from stepwell.testing.clock import FakeClock
from stepwell.testing.store_suite import Scene

ids = SystemIds()


@asynccontextmanager
async def opened(url: str, count: int = 2) -> AsyncIterator[list[PostgresStore]]:
    """As many processes would have them: each with its own connections."""
    stores = [PostgresStore(url) for _ in range(count)]
    await asyncio.gather(*(store.open() for store in stores))
    try:
        yield stores
    finally:
        await asyncio.gather(*(store.close() for store in stores))


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def deadlocks(url: str) -> int:
    async with connected(url) as connection:
        text = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        return int(await connection.fetchval(text))


async def owned(store: PostgresStore, count: int) -> list[Claim]:
    scene = Scene(store, FakeClock())
    await store.start([scene.new_run(id=ids.run_id()) for _ in range(count)])
    worker = ids.worker_id()
    await store.register(WorkerInfo(id=worker, lease_seconds=60))
    return list(await claimed(store, worker, count))


async def claimed(store: PostgresStore, worker: WorkerId, limit: int) -> list[Claim]:
    request = ClaimRequest(
        worker=worker,
        queues=["default"],
        needs=["order@1"],
        limit=limit,
        leases=[ids.lease_id() for _ in range(limit)],
    )
    return list((await store.claim(request)).claims)


@pytest.mark.slow
@pytest.mark.req("K6", "K18")
def test_crossing_deliveries_do_not_deadlock(postgres_url: str) -> None:
    rounds = 40

    async def story() -> None:
        async with opened(postgres_url) as (here, there):
            claims = await owned(here, 20)
            scene = Scene(here, FakeClock())
            left, right = claims[::2], claims[1::2]

            async def tell(store: PostgresStore, mine: list[Claim], others: list[Claim]) -> None:
                for n in range(rounds):
                    batch = [
                        scene.member(
                            own,
                            scene.done("a"),
                            head=1 + n,
                            deliveries=[scene.signal(other.run_id, f"{own.run_id}/{n}")],
                        )
                        for own, other in zip(mine, reversed(others), strict=True)
                    ]
                    outcomes = {committed.outcome for committed in await store.commit(batch)}
                    assert outcomes == {Outcome.OK}

            await asyncio.gather(tell(here, left, right), tell(there, right, left))

            for claim in claims:
                assert [row.n for row in await here.read_inbox(claim.run_id)] == list(range(1, rounds + 1))
            assert await deadlocks(postgres_url) == 0

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.req("K15")
def test_no_message_is_left_behind_by_a_park(postgres_url: str) -> None:
    sent = 300

    async def story() -> None:
        async with opened(postgres_url) as (here, there):
            [claim] = await owned(here, 1)
            scene = Scene(there, FakeClock())

            async def send() -> None:
                for n in range(sent):
                    await scene.deliver(scene.signal(claim.run_id, f"s{n}"))

            sending = asyncio.create_task(send())
            async with asyncio.timeout(60):
                got = await consumed(here, claim, sent)
            await sending

            assert sorted(got) == sorted(f"s{n}" for n in range(sent))

    asyncio.run(story())


async def consumed(store: PostgresStore, claim: Claim, count: int) -> list[str]:
    """An owner that takes what is there, parks when nothing is, and is claimed again when it was woken."""
    scene = Scene(store, FakeClock())
    worker = ids.worker_id()
    await store.register(WorkerInfo(id=worker, lease_seconds=60))
    got: list[str] = []
    head, wakes, inbox = claim.head, claim.wakes, list(claim.inbox)
    while True:
        commit = Commit(run_id=claim.run_id, lease=claim.lease, head=head)
        if inbox:
            commit.events = [scene.received(row.key, row.n) for row in inbox]
            commit.consumed = [row.key for row in inbox]
        else:
            commit.then = Park(seen=wakes, status=Status.SUSPENDED)
        [committed] = await store.commit([commit])
        if committed.outcome is Outcome.OK and inbox:
            got += commit.consumed
            head += len(inbox)
        parked = committed.outcome is Outcome.OK and commit.then is not None
        if parked and len(got) == count:
            return got
        if parked:
            again = await claimed(store, worker, 1)
            while not again:
                await asyncio.sleep(0.001)
                again = await claimed(store, worker, 1)
            claim = again[0]
            assert claim.head == head
            wakes, inbox = claim.wakes, list(claim.inbox)
        else:  # read after the statement that returned the count, never in it
            wakes = committed.wakes
            inbox = list(await store.read_inbox(claim.run_id))


@pytest.mark.req("K4")
def test_worker_that_is_being_reaped_claims_nothing(postgres_url: str) -> None:
    async def story() -> None:
        async with opened(postgres_url, 1) as [store], connected(postgres_url) as reaper:
            await owned(store, 1)
            scene = Scene(store, FakeClock())
            await store.start([scene.new_run(id=ids.run_id())])
            await store.register(WorkerInfo(id=WorkerId("late"), lease_seconds=60))
            deleting = reaper.transaction()
            await deleting.start()
            await reaper.execute("DELETE FROM stepwell.workers WHERE id = 'late'")

            claiming = asyncio.create_task(claimed(store, WorkerId("late"), 1))
            await waiting_for_a_lock(postgres_url)
            await deleting.commit()

            assert await claiming == []

    asyncio.run(story())


@pytest.mark.req("K4")
def test_ticket_that_was_claimed_during_the_reaping_is_freed_too(postgres_url: str) -> None:
    async def story() -> None:
        clock = SystemClock()
        async with opened(postgres_url, 1) as [store], connected(postgres_url) as late:
            scene = Scene(store, FakeClock())
            run_id = ids.run_id()
            await store.start([scene.new_run(id=run_id)])
            await store.register(WorkerInfo(id=WorkerId("late"), lease_seconds=60))
            await late.execute("UPDATE stepwell.contact SET since = 0, last = $1", clock.time())
            await late.execute("UPDATE stepwell.workers SET lease_until = $1", clock.time() - 1)
            claiming = late.transaction()
            await claiming.start()
            await late.execute("SELECT FROM stepwell.workers WHERE id = 'late' FOR KEY SHARE")
            await late.execute("UPDATE stepwell.tickets SET owner = 'late', lease = 'x', started = true")

            reaping = asyncio.create_task(store.reap())
            await waiting_for_a_lock(postgres_url)
            await claiming.commit()

            assert (await reaping)[:2] == (1, 1)
            [ticket] = await store.read_tickets(run_id)
            assert (ticket.owner, ticket.losses) == ("", 1)

    asyncio.run(story())


async def waiting_for_a_lock(url: str) -> None:
    async with connected(url) as connection, asyncio.timeout(10):
        text = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = $1 AND datname = current_database()"
        while not await connection.fetchval(text, "Lock"):  # noqa: ASYNC110 - the server does not notify
            await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.req("K21")
def test_starting_the_same_keys_in_opposite_order_does_not_deadlock(postgres_url: str) -> None:
    async def story() -> None:
        async with opened(postgres_url) as (here, there):
            scene = Scene(here, FakeClock())
            for n in range(10):
                keys = [f"{n}/{k:03d}" for k in range(100)]
                up = [scene.new_run(id=ids.run_id(), key=key) for key in keys]
                down = [scene.new_run(id=ids.run_id(), key=key) for key in reversed(keys)]

                first, second = await asyncio.gather(here.start(up), there.start(down))

                assert [a.run_id for a in first] == [b.run_id for b in reversed(second)]
                assert all(a.created != b.created for a, b in zip(first, reversed(second), strict=True))
            assert await deadlocks(postgres_url) == 0

    asyncio.run(story())


@pytest.mark.slow
def test_many_claimers_take_each_ticket_once(postgres_url: str) -> None:
    async def story() -> None:
        async with opened(postgres_url, 3) as stores:
            scene = Scene(stores[0], FakeClock())
            started = [scene.new_run(id=ids.run_id()) for _ in range(300)]
            await stores[0].start(started)

            async def take(store: PostgresStore) -> list[RunId]:
                worker = ids.worker_id()
                await store.register(WorkerInfo(id=worker, lease_seconds=60))
                taken: list[RunId] = []
                for _ in range(200):
                    answer = await claimed(store, worker, 7)
                    taken += [claim.run_id for claim in answer]
                    if not answer and not await still_open(store):
                        break
                return taken

            taken = await asyncio.gather(*(take(store) for store in stores))

            assert sorted(run_id for part in taken for run_id in part) == sorted(run.id for run in started)

    asyncio.run(story())


async def still_open(store: PostgresStore) -> bool:
    request = ClaimRequest(
        worker=WorkerId("nobody"), queues=["default"], needs=["order@1"], limit=0, leases=[LeaseId("x")]
    )
    await store.register(WorkerInfo(id=request.worker, lease_seconds=60))
    return (await store.claim(request)).next_in is not None


@pytest.mark.req("K4", "K31")
def test_a_claim_leaves_out_what_another_has_taken_before_its_log_was_read(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is frozen between the two statements of its claim, for longer than its lease."""

    async def story() -> None:
        async with opened(postgres_url) as (frozen, other):
            kept, lost, gone = claims = await owned(frozen, 3)
            scene = Scene(other, FakeClock())
            park = Park(seen=0, status=Status.RUNNING, due_in=0.0)
            await frozen.commit([scene.member(claim, scene.done("a"), then=park) for claim in claims])
            worker = ids.worker_id()
            await frozen.register(WorkerInfo(id=worker, lease_seconds=60))
            read = frozen._claims._read_claims

            async def read_late(*args: Any) -> list[Claim]:
                monkeypatch.undo()
                await other.deregister(worker)
                await frozen.register(WorkerInfo(id=worker, lease_seconds=60))
                taker = ids.worker_id()
                await other.register(WorkerInfo(id=taker, lease_seconds=60))
                mine = {claim.run_id: claim for claim in await claimed(other, taker, 3)}
                await other.commit([scene.member(mine[lost.run_id], scene.done("b"))])
                end = Finish(seen=0, status=Status.COMPLETED)
                await other.commit([scene.member(mine[gone.run_id], scene.done("b"), then=end)])
                await other.remove(gone.run_id)
                return await read(*args)

            monkeypatch.setattr(frozen._claims, "_read_claims", read_late)

            answer = await claimed(frozen, worker, 3)

            assert [claim.run_id for claim in answer] == [kept.run_id]  # the fence refuses this one later

    asyncio.run(story())


@pytest.mark.req("K4", "R4")
def test_a_heartbeat_does_not_wait_for_slow_reads(postgres_url: str) -> None:
    """Else people who look at much would cost a worker its lease, and so its runs."""

    async def story() -> None:
        async with opened(postgres_url, 1) as [store], connected(postgres_url) as blocker:
            worker = ids.worker_id()
            await store.register(WorkerInfo(id=worker, lease_seconds=60))
            async with blocker.transaction():
                await blocker.execute("LOCK TABLE stepwell.events")
                reads = [asyncio.create_task(store.read_log(RunId("r1"))) for _ in range(5)]

                beat = await asyncio.wait_for(store.heartbeat(worker), 2)  # reads give up after 3 s

                assert beat == Beat([])
                assert not any(read.done() for read in reads)
            await asyncio.gather(*reads)

    asyncio.run(story())
