"""Failpoints: a fault at any of them leaves all or nothing, and asking again is harmless."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell import failpoints
from stepwell.domain.ids import RunId
from stepwell.domain.limits import Limit
from stepwell.domain.records import RecordFilter
from stepwell.domain.triggers.trigger import TriggerFilter
from stepwell.errors import OutcomeUnknown, StoreUnavailable
from stepwell.store.postgres.store import PostgresStore
from stepwell.testing.clock import FakeClock
from stepwell.testing.store_suite import MakeStore, Scene
from stepwell.testing.stores.scene import QUEUE
from tests.store.transactions import EVENT, TRANSACTIONS

each_transaction = pytest.mark.parametrize("name", failpoints.TRANSACTIONS)


def play(make_store: MakeStore, story: Callable[[Scene], Awaitable[None]]) -> None:
    async def whole() -> None:
        clock = FakeClock()
        store = make_store(clock)
        await store.open()
        try:
            await story(Scene(store, clock))
        finally:
            await store.close()

    asyncio.run(whole())


async def everything(scene: Scene) -> dict[str, Any]:
    state = dict(await scene.everything())
    state["published"] = list(await scene.store.published(EVENT.name, "", since=0.0))
    state["switches"] = list(await scene.store.list_switches("default"))
    state["draining"] = [row.draining for row in await scene.store.list_workers()]
    state["holds"] = list(await scene.store.list_holds("default"))
    state["credentials"] = list(await scene.store.list_credentials("default", "key"))
    state["secrets"] = list(await scene.store.list_secrets("default"))
    state["collections"] = list(await scene.store.list_collections("default"))
    state["records"] = list(await scene.store.find_records(RecordFilter(collection="people")))
    state["triggers"] = list(await scene.store.list_triggers(TriggerFilter(type="schedule")))
    state["limits"] = list(await scene.store.read_limits())
    state["start rates"] = list(await scene.store.read_start_rates())
    state["event ticket"] = list(await scene.store.read_tickets(RunId(EVENT.id)))
    return state


def raise_at(monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    monkeypatch.setattr(failpoints, "hit", failpoints.parse(f"{point}=raise"))


@pytest.mark.req("R2", "K2")
@pytest.mark.parametrize("moment", ["before", "mid"])
@each_transaction
def test_fault_before_the_commit_changes_nothing(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, name: str, moment: str
) -> None:
    async def story(scene: Scene) -> None:
        call = await TRANSACTIONS[name](scene)
        before = await everything(scene)
        raise_at(monkeypatch, f"{name}.{moment}")

        with pytest.raises(StoreUnavailable):
            await call()

        assert await everything(scene) == before
        await call()
        assert await everything(scene) != before

    play(make_store, story)


@pytest.mark.req("R2", "K6")
@pytest.mark.parametrize("moment", ["after", "ambiguous"])
@each_transaction
def test_fault_after_the_commit_is_repeated_without_harm(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, name: str, moment: str
) -> None:
    async def story(scene: Scene) -> None:
        call = await TRANSACTIONS[name](scene)
        before = await everything(scene)
        raise_at(monkeypatch, f"{name}.{moment}")

        with pytest.raises(OutcomeUnknown):
            await call()

        after = await everything(scene)
        await call()
        assert after != before
        assert await everything(scene) == after

    play(make_store, story)


@pytest.mark.req("R2")
def test_a_claim_whose_answer_was_lost_is_found_again(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(scene: Scene) -> None:
        call = await TRANSACTIONS["claim"](scene)
        raise_at(monkeypatch, "claim.ambiguous")
        with pytest.raises(OutcomeUnknown):
            await call()

        again = await call()

        assert [claim.lease for claim in again.claims] == ["lease0", "lease1"]
        assert [list(claim.log) for claim in again.claims] == [
            list(await scene.log(claim.run_id)) for claim in again.claims
        ]

    play(make_store, story)


@pytest.mark.req("R2", "K19")
def test_a_claim_within_limits_whose_answer_was_lost_takes_no_more(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(scene: Scene) -> None:
        call = await TRANSACTIONS["claim"](scene)
        await scene.store.put_limit(Limit(kind="queue", name=QUEUE, limit=1))
        hits = 2 if isinstance(scene.store, PostgresStore) else 1  # there it is a second transaction
        monkeypatch.setattr(failpoints, "hit", failpoints.parse(f"claim.ambiguous=raise:{hits}"))
        with pytest.raises(OutcomeUnknown):
            await call()

        again = await call()

        assert [claim.lease for claim in again.claims] == ["lease0"]
        assert [use.leased for use in await scene.store.read_lanes()] == [1]

    play(make_store, story)


@pytest.mark.req("R2")
@each_transaction
def test_every_transaction_passes_all_four_points(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def story(scene: Scene) -> None:
        call = await TRANSACTIONS[name](scene)
        passed: list[str] = []
        monkeypatch.setattr(failpoints, "hit", passed.append)

        await call()

        wanted = [f"{name}.{moment}" for moment in failpoints.MOMENTS]
        assert [point for point in passed if point in wanted][:4] == wanted

    play(make_store, story)


def test_there_is_an_example_of_every_transaction() -> None:
    assert set(TRANSACTIONS) == set(failpoints.TRANSACTIONS)
