"""Rules of emit: an event reaches every run with a matching wait exactly once, in any order."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from stepwell.domain.commit import Claim, Delivery, NewWait, PublishedEvent
from stepwell.domain.cursors import just_after
from stepwell.domain.ids import NEEDS_EMIT, LeaseId, RunId
from stepwell.domain.status import Status
from stepwell.testing.stores.scene import LEASE_SECONDS, Scene, checked


def event(id: str = "e1", name: str = "order.paid", key: str = "", payload: bytes = b"1") -> PublishedEvent:
    return PublishedEvent(id, name, key, payload, 0.0)


async def waiting(scene: Scene, *waits: NewWait) -> RunId:
    claim = await scene.begun()
    await scene.ok(scene.member(claim, scene.begins("w"), waits_opened=waits, then=scene.park(claim)))
    return claim.run_id


def wait(path: str = "w#1", **parts: Any) -> NewWait:
    return NewWait(path=path, kind=parts.pop("kind", "event"), name=parts.pop("name", "order.paid"), **parts)


async def fanned_out(scene: Scene, emitted: PublishedEvent) -> Claim:
    assert await scene.store.emit(emitted)
    [claim] = await scene.claim_events(await scene.worker())
    await scene.store.fan_out(claim)
    return claim


class EmitRules:
    @pytest.mark.req("K17")
    @checked
    async def test_emitted_event_is_published_and_waits_for_a_worker(self, scene: Scene) -> None:
        scene.clock.advance(3.0)

        emitted = await scene.store.emit(event(key="k", payload=b'{"a":1}'))

        [claim] = await scene.claim_events(await scene.worker())
        assert emitted
        assert list(await scene.store.published("order.paid", "k", since=0.0)) == [
            PublishedEvent("e1", "order.paid", "k", b'{"a":1}', scene.clock())
        ]
        assert (claim.run_id, claim.path, claim.needs, claim.head) == ("e1", "", NEEDS_EMIT, 0)
        assert (list(claim.log), list(claim.inbox)) == ([], [])

    @pytest.mark.req("T3")
    @checked
    async def test_the_owner_of_a_fan_out_reads_its_event(self, scene: Scene) -> None:
        await scene.store.emit(event(key="k")._replace(by="ann", hops=3))
        [claim] = await scene.claim_events(await scene.worker())

        read = await scene.store.read_fan_out(claim)

        assert read == PublishedEvent("e1", "order.paid", "k", b"1", scene.clock(), by="ann", hops=3)
        assert await scene.store.read_fan_out(claim._replace(lease=LeaseId("another"))) is None
        await scene.store.fan_out(claim)
        assert await scene.store.read_fan_out(claim) is None

    @pytest.mark.req("K17", "K6")
    @checked
    async def test_same_id_is_emitted_once(self, scene: Scene) -> None:
        await fanned_out(scene, event())

        again = await scene.store.emit(event(payload=b"2"))

        assert again is False
        assert [event.payload for event in await scene.store.published("order.paid", "", since=0.0)] == [b"1"]
        assert list(await scene.claim_events("w1")) == []

    @pytest.mark.req("K17")
    @checked
    async def test_every_matching_wait_gets_it(self, scene: Scene) -> None:
        any_key, same_key = await waiting(scene, wait()), await waiting(scene, wait(key="k"))
        other_key, other_name = await waiting(scene, wait(key="x")), await waiting(scene, wait(name="other"))
        decision = await waiting(scene, wait(kind="decision"))

        await fanned_out(scene, event(key="k", payload=b"7"))

        for run_id in (any_key, same_key):
            [row] = await scene.store.read_inbox(run_id)
            assert (row.key, row.kind, row.name, row.payload) == ("evt/e1", "event", "w#1", b"7")
        for run_id in (other_key, other_name, decision):
            assert await scene.inbox_keys(run_id) == []
        assert await scene.claimed_ids("w1") == [any_key, same_key]
        assert list(await scene.store.read_tickets(RunId("e1"))) == []

    @pytest.mark.req("K17")
    @checked
    async def test_the_earliest_wait_of_a_run_takes_it(self, scene: Scene) -> None:
        now = scene.clock()
        run_id = await waiting(
            scene, wait("b", since=now - 1.0), wait("a", since=now), wait("c", since=now - 1.0)
        )

        await fanned_out(scene, event())

        [row] = await scene.store.read_inbox(run_id)
        assert (row.name, (await scene.ticket(run_id)).wakes) == ("b", 1)

    @pytest.mark.req("K17")
    @checked
    async def test_events_from_before_do_not_count(self, scene: Scene) -> None:
        late = await waiting(scene, wait(since=scene.clock() + 1.0))
        exact = await waiting(scene, wait(since=scene.clock()))

        await fanned_out(scene, event())

        assert await scene.inbox_keys(late) == []
        assert await scene.inbox_keys(exact) == ["evt/e1"]

    @pytest.mark.req("K17")
    @checked
    async def test_closed_waits_and_ended_runs_get_nothing(self, scene: Scene) -> None:
        closed = await scene.begun()
        await scene.ok(scene.member(closed, scene.begins("w"), waits_opened=[wait()]))
        await scene.ok(scene.member(closed, scene.done("w"), head=3, waits_closed=["w#1"]))
        ended = await scene.begun()
        await scene.ok(scene.member(ended, scene.begins("w"), waits_opened=[wait()]))
        await scene.ok(scene.member(ended, scene.completed(), head=3, then=scene.finish(ended)))

        await fanned_out(scene, event())

        assert await scene.inbox_keys(closed.run_id) == []
        assert (await scene.ticket(closed.run_id)).wakes == 0

    @pytest.mark.req("K17")
    @checked
    async def test_fan_out_of_a_lost_lease_does_nothing(self, scene: Scene) -> None:
        run_id = await waiting(scene, wait())
        await scene.store.emit(event())
        [claim] = await scene.claim_events("w1")
        await scene.lose("w1")

        await scene.store.fan_out(claim)
        before = await scene.inbox_keys(run_id)
        [heir] = await scene.claim_events("w9")
        await scene.store.fan_out(heir)
        await scene.store.fan_out(heir)

        assert (before, heir.losses) == ([], 1)
        assert await scene.inbox_keys(run_id) == ["evt/e1"]
        assert (await scene.ticket(run_id)).wakes == 1

    @pytest.mark.req("K17")
    @checked
    async def test_an_event_that_was_seen_before_fan_out_is_not_doubled(self, scene: Scene) -> None:
        """The owner reads published events after its wait is on disk; the fan-out may repeat one."""
        run_id = await waiting(scene, wait())
        await scene.deliver(scene.signal(run_id, "evt/e1"))

        await fanned_out(scene, event())

        assert await scene.inbox_keys(run_id) == ["evt/e1"]
        assert (await scene.ticket(run_id)).wakes == 1

    @pytest.mark.slow
    @pytest.mark.req("K17")
    @checked
    async def test_more_waits_than_one_chunk(self, scene: Scene) -> None:
        await scene.store.start([scene.new_run() for _ in range(1100)])
        claims = await scene.claim_as(await scene.worker(), limit=1100)
        for at in range(0, 1100, 500):
            batch = [
                scene.member(
                    claim, scene.claimed(claim), waits_opened=[wait("a"), wait("b")], then=scene.park(claim)
                )
                for claim in claims[at : at + 500]
            ]
            await scene.store.commit(batch)

        await fanned_out(scene, event())

        woken = await scene.claim_as("w1", limit=1200)
        assert len(woken) == 1100
        assert {(claim.wakes, claim.inbox[0].name) for claim in woken} == {(1, "a")}


class PublishedRules:
    @pytest.mark.req("K17")
    @checked
    async def test_published_since_a_time_oldest_first(self, scene: Scene) -> None:
        times = []
        for number in (3, 1, 2):
            await scene.store.emit(event(f"e{number}"))
            times.append(scene.clock())
            scene.clock.advance(1.0)

        ids = [
            [e.id for e in await scene.store.published("order.paid", "", since=since)]
            for since in (0.0, times[1], times[1] + 0.5, times[2] + 1.0)
        ]

        assert ids == [["e3", "e1", "e2"], ["e1", "e2"], ["e2"], []]

    @pytest.mark.req("K17")
    @checked
    async def test_published_by_name_and_key(self, scene: Scene) -> None:
        await scene.store.emit(event("e1", key="a"))
        await scene.store.emit(event("e2", key="b"))
        await scene.store.emit(event("e3", name="other", key="a"))

        any_key = [e.id for e in await scene.store.published("order.paid", "", since=0.0)]
        one_key = [e.id for e in await scene.store.published("order.paid", "b", since=0.0)]

        assert (sorted(any_key), one_key) == (["e1", "e2"], ["e2"])

    @pytest.mark.req("K35")
    @checked
    async def test_events_of_one_name_come_in_the_order_of_emitting(self, scene: Scene) -> None:
        """At one moment of the store's clock, under ids that sort the other way."""
        ids = [f"e{number}" for number in range(9, 0, -1)]
        for place, id in enumerate(ids):
            await scene.store.emit(event(id, key="k" if place % 2 else "j"))

        any_key = await scene.store.published("order.paid", "", since=scene.clock())
        one_key = await scene.store.published("order.paid", "k", since=scene.clock())

        assert [e.id for e in any_key] == ids
        assert [e.id for e in one_key] == ids[1::2]
        assert all(before.at < after.at for before, after in pairwise(any_key))
        assert any_key[0].at == scene.clock()

    @pytest.mark.req("K35")
    @checked
    async def test_published_gives_the_first_of_them(self, scene: Scene) -> None:
        for id in ("c", "a", "b", "d"):
            await scene.store.emit(event(id, key="k"))

        first = await scene.store.published("order.paid", "k", since=0.0, limit=2)
        cursor = just_after(first[-1].at)
        then = await scene.store.published("order.paid", "", since=cursor, limit=2)

        assert [e.id for e in (*first, *then)] == ["c", "a", "b", "d"]
        assert await scene.store.published("order.paid", "k", since=just_after(then[-1].at), limit=2) == []

    @pytest.mark.req("K35", "K6")
    @checked
    async def test_repeated_event_keeps_its_place(self, scene: Scene) -> None:
        for id in ("a", "b", "a", "c", "b"):
            await scene.store.emit(event(id))

        events = await scene.store.published("order.paid", "", since=0.0)

        assert [e.id for e in events] == ["a", "b", "c"]

    @pytest.mark.req("K35")
    @checked
    async def test_who_sees_an_event_sees_all_before_it(self, scene: Scene) -> None:
        """Many emit at once: every read returns a prefix of the final order."""
        looks: list[list[str]] = []
        awaited: dict[str, list[str]] = {}

        async def emit(source: str) -> None:
            for number in range(12):
                id = f"{source}{number}"
                await scene.store.emit(event(id, key=source))
                awaited.setdefault(source, []).append(id)
                events = await scene.store.published("order.paid", "", since=0.0)
                looks.append([e.id for e in events])
                assert id in looks[-1]

        async with asyncio.TaskGroup() as group:
            for source in "dcba":
                group.create_task(emit(source))

        order = [e.id for e in await scene.store.published("order.paid", "", since=0.0)]
        assert len(order) == 48
        assert all(look == order[: len(look)] for look in looks)
        assert all([id for id in order if id[0] == source] == ids for source, ids in awaited.items())

    @pytest.mark.req("K17")
    @checked
    async def test_no_event_is_lost_between_looking_and_parking(self, scene: Scene) -> None:
        """Write the wait, read, park: an emit after the read comes by fan-out and refuses the park."""
        claim = await scene.begun()
        await scene.ok(scene.member(claim, scene.begins("w"), waits_opened=[wait(since=scene.clock())]))
        looked = list(await scene.store.published("order.paid", "", since=scene.clock()))
        await fanned_out(scene, event())

        refused = await scene.commit(scene.member(claim, head=3, then=scene.park(claim)))

        assert (looked, refused.outcome) == ([], "woken")
        assert (await scene.run(claim.run_id)).status is Status.RUNNING

    @checked
    async def test_event_tickets_are_owned_and_reaped_like_others(self, scene: Scene) -> None:
        await scene.store.emit(event())
        await scene.claim_events(await scene.worker())
        owned = await scene.beaten("w1")
        await scene.worker("w2")
        await scene.beat("w2", LEASE_SECONDS + 1.0)
        reaped = await scene.store.reap()

        assert [(o.run_id, o.path) for o in owned or ()] == [("e1", "")]
        assert (reaped.workers, reaped.tickets) == (1, 1)
        assert await scene.deliver(scene.signal("e9")) is Delivery.UNKNOWN
