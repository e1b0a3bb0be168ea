"""Rules of a commit whose answer was lost: a repetition is recognised and never written twice."""

from __future__ import annotations

import pytest

from stepwell.domain.commit import Commit, NewTicket, Outcome
from stepwell.domain.ids import LeaseId
from stepwell.domain.status import Status
from stepwell.testing.stores.scene import Scene, checked


class RepeatRules:
    @pytest.mark.req("K3", "R2")
    @checked
    async def test_keep_sent_again_is_recognised(self, scene: Scene) -> None:
        claim = await scene.owned()
        commit = scene.member(claim, scene.claimed(claim), scene.done("a"))
        first = await scene.ok(commit)
        before = await scene.everything()
        scene.clock.advance(3.0)

        second = await scene.commit(commit)

        assert second == first
        assert await scene.everything() == before

    @pytest.mark.req("R2")
    @checked
    async def test_later_commit_sent_again_is_recognised(self, scene: Scene) -> None:
        claim = await scene.begun()
        commit = scene.member(claim, scene.done("a"))
        await scene.ok(commit)

        assert (await scene.commit(commit)).outcome is Outcome.OK
        assert len(await scene.log(claim.run_id)) == 3

    @pytest.mark.req("R2")
    @checked
    async def test_park_with_events_sent_again_is_recognised(self, scene: Scene) -> None:
        claim = await scene.begun()
        commit = scene.member(claim, scene.done("a"), then=scene.park(claim))
        await scene.ok(commit)
        before = await scene.everything()

        assert (await scene.commit(commit)).outcome is Outcome.OK
        assert await scene.everything() == before

    @pytest.mark.req("R2")
    @checked
    async def test_finish_sent_again_is_recognised(self, scene: Scene) -> None:
        parent, claim = await scene.suspended(), await scene.begun()
        commit = scene.member(
            claim,
            scene.completed(),
            then=scene.finish(claim, output=b"1"),
            deliveries=[scene.signal(parent, "child/c/3")],
            starts=[scene.new_run(id="kid")],
        )
        await scene.ok(commit)
        before = await scene.everything()

        assert (await scene.commit(commit)).outcome is Outcome.OK
        assert await scene.everything() == before

    @pytest.mark.req("R2")
    @checked
    async def test_what_was_reached_out_to_is_not_reached_twice(self, scene: Scene) -> None:
        target, claim = await scene.suspended(), await scene.begun()
        commit = scene.member(
            claim,
            scene.done("a"),
            deliveries=[scene.signal(target)],
            tickets_opened=[NewTicket(path="remote", queue="gpu", needs="step:x", seq=3)],
        )
        await scene.ok(commit)
        [taken] = await scene.claim_as("w1", queues=("gpu",), needs=("step:x",))

        assert (await scene.commit(commit)).outcome is Outcome.OK
        assert (await scene.ticket(target)).wakes == 1
        assert (await scene.ticket(claim.run_id, "remote")).lease == taken.lease

    @pytest.mark.req("K3")
    @checked
    async def test_another_event_at_a_used_place_is_lost(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.ok(scene.member(claim, scene.done("a")))
        before = await scene.everything()

        for other in (scene.done("b"), scene.done("a", b"2"), scene.begins("a")):
            assert (await scene.commit(scene.member(claim, other))).outcome is Outcome.LOST
        longer = scene.member(claim, scene.done("a"), scene.done("b"))

        assert (await scene.commit(longer)).outcome is Outcome.LOST
        assert await scene.everything() == before

    @pytest.mark.req("K3")
    @checked
    async def test_the_same_events_of_another_owner_are_lost(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.ok(scene.member(claim, scene.done("a")))

        stranger = await scene.commit(scene.member(claim, scene.done("a"), lease=LeaseId("other")))

        assert stranger.outcome is Outcome.LOST

    @pytest.mark.req("K3")
    @checked
    async def test_recognised_also_after_the_next_owner_went_on(self, scene: Scene) -> None:
        claim = await scene.begun()
        late = scene.member(claim, scene.done("a"))
        await scene.ok(late)
        await scene.lose("w1")
        [heir] = await scene.claim_as("w9")
        await scene.ok(scene.member(heir, scene.claimed(heir, "w9"), scene.done("b")))

        assert (await scene.commit(late)).outcome is Outcome.OK
        assert (await scene.commit(scene.member(claim, scene.done("c"), head=3))).outcome is Outcome.LOST
        assert len(await scene.log(claim.run_id)) == 5

    @pytest.mark.req("K3", "R4")
    @checked
    async def test_a_commit_that_never_arrived_is_lost_once_another_owns_the_run(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.lose("w1")
        [heir] = await scene.claim_as("w9")
        before = await scene.everything()

        frozen = await scene.commit(scene.member(claim, scene.done("a")))

        assert (frozen.outcome, heir.head) == (Outcome.LOST, 2)
        assert await scene.everything() == before

    @checked
    async def test_pure_park_sent_again_is_lost(self, scene: Scene) -> None:
        claim = await scene.begun()
        commit = scene.member(claim, then=scene.park(claim))
        await scene.ok(commit)

        assert (await scene.commit(commit)).outcome is Outcome.LOST
        assert (await scene.run(claim.run_id)).status is Status.SUSPENDED

    @checked
    async def test_a_batch_sent_again_answers_member_by_member(self, scene: Scene) -> None:
        for _ in range(3):
            await scene.start()
        claims = await scene.claim_as(await scene.worker())
        await scene.ok(scene.member(claims[1], scene.claimed(claims[1]), scene.done("mine")))
        batch: list[Commit] = [scene.member(claim, scene.claimed(claim)) for claim in claims]
        batch[1] = scene.member(claims[1], scene.done("not mine"))

        first = [committed.outcome for committed in await scene.store.commit(batch)]
        second = [committed.outcome for committed in await scene.store.commit(batch)]

        assert first == second == [Outcome.OK, Outcome.LOST, Outcome.OK]
        assert [len(await scene.log(claim.run_id)) for claim in claims] == [2, 3, 2]
