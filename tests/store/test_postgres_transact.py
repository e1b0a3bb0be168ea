"""Transactional steps on PostgreSQL: the user's rows and the step's event stand or fall together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from stepwell.domain.commit import Outcome
from stepwell.domain.ids import LeaseId
from stepwell.store.postgres.store import PostgresStore
from stepwell.store.postgres.transactions import STEPS_AT_ONCE
from stepwell.testing.clock import FakeClock
from stepwell.testing.store_suite import MakeStore, Scene
from tests.store.trio import SharedDatabase


async def pay(connection: Any) -> None:
    await connection.execute("INSERT INTO public.payments (id) VALUES (1)")


async def pay_and_fail(connection: Any) -> None:
    await pay(connection)
    raise ZeroDivisionError("after the write")


@pytest.fixture
def payments(make_postgres: MakeStore, postgres_shared: SharedDatabase) -> Callable[..., int]:
    """Plays a story with a table of the user's own; returns how many rows were left in it."""

    def play(story: Callable[[Scene], Awaitable[None]]) -> int:
        async def whole() -> int:
            user = await asyncpg.connect(postgres_shared.url)
            await user.execute("DROP TABLE IF EXISTS public.payments")
            await user.execute("CREATE TABLE public.payments (id int PRIMARY KEY)")
            clock = FakeClock()
            store = make_postgres(clock)
            await store.open()
            try:
                await story(Scene(store, clock))
                rows: int = await user.fetchval("SELECT count(*) FROM public.payments")
                return rows
            finally:
                await store.close()
                await user.execute("DROP TABLE public.payments")
                await user.close()

        return asyncio.run(whole())

    return play


@pytest.mark.req("K14")
def test_both_are_written(payments: Callable[..., int]) -> None:
    async def story(scene: Scene) -> None:
        claim = await scene.begun()
        committed = await scene.store.transact(pay, lambda _: scene.member(claim, scene.done("tx")))
        assert committed.outcome is Outcome.OK
        assert (await scene.kinds(claim.run_id))[-1] == "step_completed"

    assert payments(story) == 1


@pytest.mark.req("K14", "K3")
def test_without_the_lease_the_users_rows_are_rolled_back(payments: Callable[..., int]) -> None:
    async def story(scene: Scene) -> None:
        claim = await scene.begun()
        stale = scene.member(claim, scene.done("tx"), lease=LeaseId("stale"))
        committed = await scene.store.transact(pay, lambda _: stale)
        assert committed.outcome is Outcome.LOST
        assert len(await scene.log(claim.run_id)) == 2

    assert payments(story) == 0


@pytest.mark.req("K14")
def test_an_error_of_the_body_rolls_its_rows_back(payments: Callable[..., int]) -> None:
    async def story(scene: Scene) -> None:
        claim = await scene.begun()
        with pytest.raises(ZeroDivisionError):
            await scene.store.transact(pay_and_fail, lambda _: scene.member(claim, scene.done("tx")))
        assert len(await scene.log(claim.run_id)) == 2

    assert payments(story) == 0


@pytest.mark.req("K14", "K5")
def test_a_second_try_of_the_same_step_does_not_pay_twice(payments: Callable[..., int]) -> None:
    """The first try was written and its answer lost: the second is recognised, its rows rolled back."""

    async def pay_again(connection: Any) -> None:
        await connection.execute("INSERT INTO public.payments (id) VALUES (2)")

    async def story(scene: Scene) -> None:
        claim = await scene.begun()
        commit = scene.member(claim, scene.done("tx"))
        await scene.store.transact(pay, lambda _: commit)
        again = await scene.store.transact(pay_again, lambda _: commit)
        assert again.outcome is Outcome.OK

    assert payments(story) == 1


@pytest.mark.req("K14")
def test_one_that_is_cancelled_while_it_cleans_up_keeps_no_place(
    payments: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(scene: Scene) -> None:
        store, claim, cleaning = scene.store, await scene.begun(), asyncio.Event()
        assert isinstance(store, PostgresStore)

        async def reset(connection: Any, *, timeout: float) -> None:
            cleaning.set()
            await asyncio.Event().wait()

        with monkeypatch.context() as patched:
            patched.setattr(asyncpg.Connection, "reset", reset)
            for _ in range(STEPS_AT_ONCE):
                cleaning.clear()
                failing = asyncio.ensure_future(store.transact(pay_and_fail, lambda _: scene.member(claim)))
                await cleaning.wait()
                failing.cancel()
                await asyncio.wait([failing])
        assert store._transactions.budget.connected == 0  # nobody knows what is left in those

        async with asyncio.timeout(20):
            committed = await store.transact(pay, lambda _: scene.member(claim, scene.done("tx")))
        assert committed.outcome is Outcome.OK

    assert payments(story) == 1
