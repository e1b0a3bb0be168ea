"""Rules of deliver: messages arrive once, in order, and wake their run, but never too early."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from msgspec import Raw

from stepwell.domain.commit import Delivery, InboxRow, Message, NewWait, Outcome
from stepwell.domain.ids import RunId
from stepwell.domain.messages import Decision, decide_key
from stepwell.domain.status import Status
from stepwell.store.base import INBOX_MAX, INBOX_READ_MAX
from stepwell.testing.stores.scene import Scene, checked


class DeliverRules:
    @pytest.mark.req("K15")
    @checked
    async def test_message_waits_in_the_inbox(self, scene: Scene) -> None:
        run_id = await scene.suspended()
        scene.clock.advance(2.0)

        delivery = await scene.deliver(scene.signal(run_id, "k", b'{"a":1}'))

        assert delivery is Delivery.DELIVERED
        assert list(await scene.store.read_inbox(run_id)) == [
            InboxRow("k", 1, "signal", "go", b'{"a":1}', scene.clock())
        ]

    @pytest.mark.req("K6")
    @checked
    async def test_repeated_key_is_no_news(self, scene: Scene) -> None:
        run_id = await scene.suspended()
        await scene.deliver(scene.signal(run_id, "k", b"1"))
        before = await scene.everything()
        scene.clock.advance(1.0)

        again = await scene.store.deliver([scene.signal(run_id, "k", b"2"), scene.signal(run_id, "k", b"3")])

        assert list(again) == [Delivery.DUPLICATE, Delivery.DUPLICATE]
        assert await scene.everything() == before

    @pytest.mark.req("K15")
    @checked
    async def test_messages_keep_their_order(self, scene: Scene) -> None:
        run_id, other = await scene.suspended(), await scene.suspended()
        first = [scene.signal(run_id, "z"), scene.signal(other, "o"), scene.signal(run_id, "a")]
        answer = await scene.store.deliver([*first, scene.signal(run_id, "z"), scene.signal(run_id, "m")])
        await scene.deliver(scene.signal(run_id, "b"))

        rows = await scene.store.read_inbox(run_id)

        assert list(answer) == [Delivery.DELIVERED] * 3 + [Delivery.DUPLICATE, Delivery.DELIVERED]
        assert [(row.key, row.n) for row in rows] == [("z", 1), ("a", 2), ("m", 3), ("b", 4)]
        assert [row.key for row in await scene.store.read_inbox(run_id, after=2)] == ["m", "b"]
        assert (await scene.ticket(run_id)).wakes == 4

    @pytest.mark.req("K15")
    @checked
    async def test_order_goes_on_after_messages_were_consumed(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.store.deliver([scene.signal(claim.run_id, "a"), scene.signal(claim.run_id, "b")])
        await scene.ok(scene.member(claim, scene.received("a", 1), consumed=["a", "b"]))

        await scene.deliver(scene.signal(claim.run_id, "c"))

        assert [(row.key, row.n) for row in await scene.store.read_inbox(claim.run_id)] == [("c", 3)]

    @checked
    async def test_ended_and_unknown_runs_say_so(self, scene: Scene) -> None:
        ended, live = await scene.failed(), await scene.suspended()

        answer = await scene.store.deliver(
            [scene.signal(ended), scene.signal("nobody"), scene.signal(live), scene.signal("nobody", "s2")]
        )

        assert list(answer) == [Delivery.ENDED, Delivery.UNKNOWN, Delivery.DELIVERED, Delivery.UNKNOWN]
        assert await scene.inbox_keys(ended) == []

    @pytest.mark.req("K21")
    @checked
    async def test_message_does_not_start_a_delayed_run_early(self, scene: Scene) -> None:
        run_id = await scene.start(delay=60.0)
        begin = scene.clock()

        await scene.deliver(scene.signal(run_id))

        assert (await scene.ticket(run_id)).due_at == begin + 60.0
        assert await scene.claimed_ids(await scene.worker()) == []

    @pytest.mark.req("K19")
    @checked
    async def test_message_does_not_cost_a_waiting_run_its_place(self, scene: Scene) -> None:
        first = await scene.start()
        scene.clock.advance(1.0)
        second = await scene.start()
        scene.clock.advance(1.0)

        await scene.deliver(scene.signal(first))

        assert (await scene.ticket(first)).due_at == scene.clock() - 2.0
        assert await scene.claimed_ids(await scene.worker()) == [first, second]

    @pytest.mark.req("K16")
    @checked
    async def test_message_wakes_a_sleeper(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.ok(scene.member(claim, then=scene.park(claim, due_in=3600.0)))

        await scene.deliver(scene.signal(claim.run_id))

        assert (await scene.ticket(claim.run_id)).due_at == scene.clock()

    @checked
    async def test_message_before_the_first_claim_is_there_with_it(self, scene: Scene) -> None:
        run_id = await scene.start()
        await scene.deliver(scene.signal(run_id))

        [claim] = await scene.claim_as(await scene.worker())

        assert (claim.wakes, [row.key for row in claim.inbox]) == (1, ["s1"])

    @pytest.mark.slow
    @checked
    async def test_long_inboxes_are_read_in_pieces_and_end_somewhere(self, scene: Scene) -> None:
        run_id = await scene.suspended()
        for chunk in range(0, INBOX_MAX, 1000):
            await scene.store.deliver([scene.signal(run_id, f"k{chunk + i}") for i in range(1000)])

        full = await scene.deliver(scene.signal(run_id, "one more"))
        repeated = await scene.deliver(scene.signal(run_id, "k7"))
        [claim] = await scene.claim_as("w1")
        second = await scene.store.read_inbox(run_id, after=INBOX_READ_MAX)

        assert (full, repeated) == (Delivery.FULL, Delivery.DUPLICATE)
        assert (claim.wakes, len(claim.inbox)) == (INBOX_MAX, INBOX_READ_MAX)
        assert (len(second), second[0].n) == (INBOX_READ_MAX, INBOX_READ_MAX + 1)
        assert await scene.deliver(Message(run_id=run_id, key="cancel", kind="cancel")) is Delivery.DELIVERED

    @pytest.mark.req("K6")
    @checked
    async def test_crossing_deliveries_neither_deadlock_nor_get_lost(self, scene: Scene) -> None:
        runs = [await scene.begun() for _ in range(6)]

        async with asyncio.TaskGroup() as group:
            for turn, claim in enumerate(runs):
                others = [c.run_id for c in runs if c is not claim]
                signals = [scene.signal(other, f"from-{turn}") for other in others[:: 1 if turn % 2 else -1]]
                group.create_task(scene.ok(scene.member(claim, scene.done("a"), deliveries=signals)))
                group.create_task(_delivered(scene, [scene.signal(other, f"api-{turn}") for other in others]))

        for claim in runs:
            rows = await scene.store.read_inbox(claim.run_id)
            assert [row.n for row in rows] == list(range(1, 11))
            assert (await scene.ticket(claim.run_id)).wakes == 10


class DecideRules:
    def decision(self, run_id: str, token: str, path: str = "ask#1") -> Message:
        payload = msgspec.json.encode(Decision(token=token, answer=Raw(b"true")))
        return Message(
            run_id=RunId(run_id), key=decide_key(path), kind="decide", name=path, payload=payload, wait=path
        )

    async def asking(self, scene: Scene, path: str = "ask#1") -> RunId:
        claim = await scene.begun()
        waits = [NewWait(path=path, kind="decision", name="ask")]
        await scene.ok(scene.member(claim, scene.begins("ask"), waits_opened=waits, then=scene.park(claim)))
        return claim.run_id

    @pytest.mark.req("K15")
    @checked
    async def test_first_answer_to_an_open_wait_is_delivered(self, scene: Scene) -> None:
        run_id = await self.asking(scene)

        assert await scene.deliver(self.decision(run_id, "t1")) is Delivery.DELIVERED
        assert await scene.inbox_keys(run_id) == ["decide/ask#1"]

    @pytest.mark.req("K15", "K6")
    @checked
    async def test_second_answer_is_refused_and_a_repeat_is_not(self, scene: Scene) -> None:
        run_id = await self.asking(scene)
        await scene.deliver(self.decision(run_id, "t1"))
        before = await scene.everything()

        second = await scene.deliver(self.decision(run_id, "t2"))
        repeat = await scene.deliver(self.decision(run_id, "t1"))

        assert (second, repeat) == (Delivery.DECIDED, Delivery.DUPLICATE)
        assert await scene.everything() == before

    @pytest.mark.req("K15")
    @checked
    async def test_answer_without_an_open_wait_is_refused(self, scene: Scene) -> None:
        run_id = await self.asking(scene)
        before = await scene.everything()

        other = await scene.deliver(self.decision(run_id, "t1", "ask#2"))

        assert other is Delivery.DECIDED
        assert await scene.everything() == before

    @pytest.mark.req("K15")
    @checked
    async def test_second_click_does_not_answer_the_next_question(self, scene: Scene) -> None:
        run_id = await self.asking(scene)
        await scene.deliver(self.decision(run_id, "t1"))
        [claim] = await scene.claim_as("w1")
        await scene.ok(
            scene.member(
                claim,
                scene.claimed(claim),
                scene.received("decide/ask#1", 1),
                consumed=["decide/ask#1"],
                waits_closed=["ask#1"],
                waits_opened=[NewWait(path="ask#2", kind="decision", name="ask")],
                then=scene.park(claim),
            )
        )

        late = await scene.deliver(self.decision(run_id, "t1"))

        assert late is Delivery.DECIDED
        assert await scene.inbox_keys(run_id) == []
        assert await scene.deliver(self.decision(run_id, "t3", "ask#2")) is Delivery.DELIVERED

    @pytest.mark.req("K15")
    @checked
    async def test_decision_for_an_ended_run_says_ended(self, scene: Scene) -> None:
        assert await scene.deliver(self.decision(await scene.failed(), "t1")) is Delivery.ENDED
        assert await scene.deliver(self.decision("nobody", "t1")) is Delivery.UNKNOWN

    @pytest.mark.req("K15")
    @checked
    async def test_of_many_clicks_at_once_one_counts(self, scene: Scene) -> None:
        run_id = await self.asking(scene)

        async with asyncio.TaskGroup() as group:
            clicks = [
                group.create_task(scene.deliver(self.decision(run_id, f"t{turn}"))) for turn in range(8)
            ]

        assert sorted(click.result() for click in clicks) == [Delivery.DECIDED] * 7 + [Delivery.DELIVERED]

    @pytest.mark.req("K15", "K11")
    @checked
    async def test_waits_from_before_a_retry_are_closed(self, scene: Scene) -> None:
        claim = await scene.begun()
        waits = [NewWait(path="ask#1", kind="decision", name="ask")]
        await scene.ok(scene.member(claim, scene.begins("ask"), waits_opened=waits))
        failing = scene.finish(claim, Status.FAILED)
        await scene.ok(scene.member(claim, scene.done("a"), head=3, then=failing))
        await scene.store.retry(claim.run_id)

        assert await scene.deliver(self.decision(claim.run_id, "t1")) is Delivery.DECIDED

    @checked
    async def test_wait_of_a_refused_commit_is_not_open(self, scene: Scene) -> None:
        claim = await scene.begun()
        waits = [NewWait(path="ask#1", kind="decision", name="ask")]
        refused = await scene.commit(scene.member(claim, scene.begins("ask"), head=9, waits_opened=waits))

        assert refused.outcome is Outcome.LOST
        assert await scene.deliver(self.decision(claim.run_id, "t1")) is Delivery.DECIDED


async def _delivered(scene: Scene, messages: Sequence[Message]) -> None:
    assert set(await scene.store.deliver(messages)) == {Delivery.DELIVERED}
