"""A leased ticket whose owner has no row: only a race makes one, so the row is taken away by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import asyncpg
import pytest

from stepwell.domain.commit import Reaped
from stepwell.domain.ids import WorkerId
from stepwell.store.memory import MemoryStore
from stepwell.testing.clock import FakeClock
from stepwell.testing.store_suite import MakeStore, Scene
from tests.store.trio import SharedDatabase

Forget = Callable[[Scene], Awaitable[None]]


async def in_memory(scene: Scene) -> None:
    assert isinstance(scene.store, MemoryStore)
    del scene.store._workers[WorkerId("w1")]


def in_sqlite(path: Path) -> Forget:
    async def forget(_: Scene) -> None:
        connection = apsw.Connection(str(path))
        connection.execute("DELETE FROM workers WHERE id = 'w1'")
        connection.close()

    return forget


def in_postgres(url: str) -> Forget:
    async def forget(_: Scene) -> None:
        connection = await asyncpg.connect(url)
        await connection.execute("DELETE FROM stepwell.workers WHERE id = 'w1'")
        await connection.close()

    return forget


def orphan(make_store: MakeStore, forget: Forget) -> None:
    async def story() -> None:
        clock = FakeClock()
        store = make_store(clock)
        await store.open()
        scene = Scene(store, clock)
        claim = await scene.begun()
        await forget(scene)

        reaped = await store.reap()

        ticket = await scene.ticket(claim.run_id)
        [heir] = await scene.claim_as(await scene.worker("w2"))
        await store.close()
        assert reaped == Reaped(0, 1, False)
        assert (ticket.owner, ticket.lease, ticket.losses) == ("", "", 1)
        assert (heir.run_id, heir.lost_lease) == (claim.run_id, claim.lease)

    asyncio.run(story())


@pytest.mark.req("K4")
def test_orphan_in_memory_is_freed_at_once(make_memory: MakeStore) -> None:
    orphan(make_memory, in_memory)


@pytest.mark.req("K4")
def test_orphan_in_sqlite_is_freed_at_once(make_sqlite: MakeStore, tmp_path: Path) -> None:
    orphan(make_sqlite, in_sqlite(tmp_path / "app.db"))


@pytest.mark.req("K4")
def test_orphan_in_postgres_is_freed_at_once(
    make_postgres: MakeStore, postgres_shared: SharedDatabase
) -> None:
    orphan(make_postgres, in_postgres(postgres_shared.url))
