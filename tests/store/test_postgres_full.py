"""A PostgreSQL with few connections: engines share those they have and close those they can spare."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import repeat
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from stepwell import Context, Engine, step, workflow
from stepwell.domain.commit import Delivery, Outcome
from stepwell.errors import StoreUnavailable
from stepwell.store.postgres import store as postgres_store
from stepwell.store.postgres import wakeups
from stepwell.store.postgres.pool.budget import SHARE_SECONDS
from stepwell.store.postgres.store import PostgresStore
from stepwell.store.postgres.transactions import STEPS_AT_ONCE
from tests.engines import SETTINGS, until
from tests.store.test_postgres_outage import scene_of
from tools.postgres.databases import Databases, name_of


@pytest.fixture
def narrow_url(postgres_databases: Databases, postgres_url: str) -> Iterator[str]:
    """The database of a role that no connection has been allowed yet."""
    name, role = name_of(postgres_url), f"narrow_{uuid.uuid4().hex}"
    postgres_databases.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0")
    postgres_databases.execute(f'ALTER DATABASE "{name}" OWNER TO {role}')
    address = urlsplit(postgres_url)
    yield address._replace(netloc=f"{role}@{address.netloc.rpartition('@')[2]}").geturl()
    postgres_databases.drop(postgres_url)
    postgres_databases.execute(f"DROP ROLE {role}")


def role_of(url: str) -> str:
    return str(urlsplit(url).username)


@asynccontextmanager
async def server(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def used(connection: Any) -> int:
    """Connections to this database, without the one that asks."""
    count: int = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    return count


async def at_least(count: int, connection: Any) -> int:
    connections = await used(connection)
    return connections if connections >= count else 0


@step(transactional=True)
async def keep(connection: Any, n: int) -> int:
    await connection.execute("SELECT 1")
    return n


@workflow
async def child(ctx: Context, n: int) -> int:
    return await ctx.step(keep, n) if n == 0 else n


@workflow
async def parent(ctx: Context, n: int) -> int:
    added = await ctx.signal("added", int)
    return added + await ctx.run(child, n)


@pytest.mark.req("R4")
@pytest.mark.slow
async def test_engines_on_a_full_server_work_with_what_they_have(narrow_url: str, postgres_url: str) -> None:
    async with server(postgres_url) as connection:
        await connection.execute(f"ALTER ROLE {role_of(narrow_url)} CONNECTION LIMIT 100")
        async with (
            Engine(narrow_url, workflows=[parent, child], settings=SETTINGS) as one,
            Engine(narrow_url, workflows=[parent, child], settings=SETTINGS) as two,
        ):
            room = await until(lambda: at_least(6, connection))
            await connection.execute(f"ALTER ROLE {role_of(narrow_url)} CONNECTION LIMIT {room}")

            runs = [await engine.start(parent, n) for n in range(5) for engine in (one, two)]
            for run in runs:
                await run.signal("added", 100)

            assert [await run.result(120) for run in runs] == [
                100,
                100,
                101,
                101,
                102,
                102,
                103,
                103,
                104,
                104,
            ]


@workflow
async def other(ctx: Context, n: int) -> int:
    return await ctx.step(keep, n)


@pytest.mark.req("R4")
@pytest.mark.slow
async def test_an_engine_makes_way_for_one_that_has_too_little(narrow_url: str, postgres_url: str) -> None:
    async with server(postgres_url) as connection:
        await connection.execute(f"ALTER ROLE {role_of(narrow_url)} CONNECTION LIMIT 100")
        async with Engine(narrow_url, workflows=[other], settings=SETTINGS) as one:
            runs = [await one.start(other, n) for n in range(20)]
            assert [await run.result(60) for run in runs] == list(range(20))
            room = await used(connection) + 1
            await connection.execute(f"ALTER ROLE {role_of(narrow_url)} CONNECTION LIMIT {room}")

            async with Engine(narrow_url, workflows=[child], settings=SETTINGS) as two:
                run = await two.start(child, 0)

                assert await run.result(30) == 0


@pytest.mark.req("R4")
async def test_one_connection_carries_all_kinds_of_work(narrow_url: str, postgres_url: str) -> None:
    async with server(postgres_url) as connection:
        await connection.execute(f"ALTER ROLE {role_of(narrow_url)} CONNECTION LIMIT 1")
        async with scene_of(narrow_url) as scene:
            claim = await scene.begun()
            waiting = await scene.suspended()
            await scene.start()  # the claim finds this one, whatever it overtakes

            async with asyncio.TaskGroup() as together:
                reads = [together.create_task(scene.store.now()) for _ in range(50)]
                starts = [together.create_task(scene.start()) for _ in range(50)]
                commit = together.create_task(scene.commit(scene.member(claim, scene.done("a"))))
                delivering = together.create_task(scene.deliver(scene.signal(waiting, "k")))
                claims = together.create_task(scene.claim_as(await scene.worker(), limit=1))

            assert commit.result().outcome is Outcome.OK
            assert delivering.result() is Delivery.DELIVERED
            assert len({start.result() for start in starts}) == len(reads) == 50
            assert len(claims.result()) == 1
            assert await used(connection) == 1


@pytest.mark.req("R4")
async def test_hints_do_not_take_back_the_connection_that_work_needs(
    narrow_url: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "pauses", lambda: repeat(0.0))  # it reconnects faster than the waiting work
    async with server(postgres_url) as connection:
        await connection.execute(f"ALTER ROLE {role_of(narrow_url)} CONNECTION LIMIT 2")
        async with scene_of(narrow_url) as scene:
            store = scene.store
            assert isinstance(store, PostgresStore)
            store.listen(lambda text: None)
            await until(lambda: store._wakeups._connection)
            await connection.execute(f"ALTER ROLE {role_of(narrow_url)} CONNECTION LIMIT 1")
            for slot in store.db.budget._slots:
                slot.drop()

            async with asyncio.timeout(SHARE_SECONDS):
                await store.now()


@pytest.mark.req("R4")
async def test_hints_make_room_for_a_transactional_step(narrow_url: str, postgres_url: str) -> None:
    async with server(postgres_url) as connection:
        await connection.execute(f"ALTER ROLE {role_of(narrow_url)} CONNECTION LIMIT 2")
        async with scene_of(narrow_url) as scene:
            store = scene.store
            assert isinstance(store, PostgresStore)
            claim = await scene.begun()
            while store.db.budget.give_up():
                pass
            store.listen(lambda text: None)
            await until(lambda: store._wakeups._connection)

            async with asyncio.timeout(SHARE_SECONDS):
                done = await store.transact(lambda _: None, lambda _: scene.member(claim, scene.done("a")))

            assert done.outcome is Outcome.OK


@pytest.mark.req("R4")
async def test_connections_that_nobody_needs_are_given_back(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server(postgres_url) as connection, scene_of(postgres_url) as scene:
        claim = await scene.begun()
        await scene.store.transact(lambda _: None, lambda _: scene.member(claim, scene.done("a")))
        assert await used(connection) >= 4  # for starts, claims, the rest and transactional steps

        async def alone() -> bool:
            return await used(connection) == 1

        monkeypatch.setattr(postgres_store, "LOOK_SECONDS", 0.003)
        await until(alone)
        await scene.ok(scene.member(claim, scene.done("b"), head=claim.head + 1))
        await scene.start()
        await until(alone)


@pytest.mark.req("R4")
async def test_the_hint_for_a_full_server_counts_right(narrow_url: str, postgres_url: str) -> None:
    refusing = PostgresStore(narrow_url)
    with pytest.raises(StoreUnavailable, match="no connection left") as refused:
        await refusing.open()

    async with server(postgres_url) as connection, scene_of(postgres_url) as scene:
        store = scene.store
        assert isinstance(store, PostgresStore)
        store.listen(lambda text: None)
        slots = [(kind, await kind.take()) for kind in store._every_slots for _ in range(kind.count)]
        for _, slot in slots:
            await slot.connection()
        most = await until(lambda: at_least(len(slots) + 1, connection))
        for kind, slot in slots:
            kind.give_back(slot)

    count = re.search(r"up to (\d+), plus (\d+) for transactional steps", refused.value.hint)
    assert count is not None
    assert (int(count[1]) + int(count[2]), int(count[2])) == (most, STEPS_AT_ONCE)


@pytest.mark.req("K31")
async def test_a_worker_is_ready_to_commit_before_its_first_run(postgres_url: str) -> None:
    """Otherwise that run, or one that is taken over, waits for a connection and two plans."""
    async with Engine(postgres_url, workflows=[child], settings=SETTINGS), server(postgres_url) as connection:

        async def planned() -> int:
            count: int = await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND query LIKE '%grown, settled%' AND pid <> pg_backend_pid()"  # of both statements
            )
            return count

        assert await until(planned) == 1
        assert await connection.fetchval("SELECT count(*) FROM stepwell.events") == 0
