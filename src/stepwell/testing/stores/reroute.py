"""Rules for work that no worker here does: how to list it, and how to reroute it."""

from __future__ import annotations

import pytest

from stepwell.domain.commit import NewTicket
from stepwell.domain.events import StepScheduled, written
from stepwell.domain.ids import RunId
from stepwell.testing.stores.limits import lane
from stepwell.testing.stores.scene import LEASE_SECONDS, NEEDS, QUEUE, Scene, checked


class RerouteRules:
    @pytest.mark.req("K37")
    @checked
    async def test_others_are_the_first_tickets_of_each_kind_that_is_not_covered(self, scene: Scene) -> None:
        await scene.start()
        late = await scene.start(needs="order@2", delay=5.0)
        first = await scene.start(needs="order@2")
        await scene.start(needs="order@2")
        limited = await scene.start(needs="graph@a", lane=lane(1))
        urgent = await scene.start(needs="graph@a", lane=lane(2), priority=1)
        elsewhere = await scene.start(needs="order@2", queue="gpu")

        async def others(queues: tuple[str, ...], *needs: str) -> list[str]:
            return [ticket.run_id for ticket in await scene.store.list_others(queues, needs)]

        assert await others((QUEUE,), NEEDS) == [urgent, first]
        assert await others((QUEUE, "gpu"), NEEDS, "graph@a") == [first, elsewhere]
        assert await others(("gpu",), NEEDS, "order@2") == []
        await scene.worker()
        assert len(await scene.claim_as("w1", needs=("order@2",), limit=2)) == 2
        assert await others((QUEUE,), NEEDS) == [urgent, late]
        assert len(await scene.claim_as("w1", needs=("graph@a",), limit=1)) == 1
        assert await others((QUEUE,), NEEDS, "order@2") == [limited]

    @pytest.mark.req("K37")
    @checked
    async def test_others_tell_all_of_a_ticket(self, scene: Scene) -> None:
        run_id = await scene.suspended(lane=lane(3))
        await scene.store.cancel(run_id, "enough")

        [ticket] = await scene.store.list_others((QUEUE,), ())

        assert ticket == await scene.ticket(run_id)
        assert (ticket.ending, ticket.started) == (True, True)

    @pytest.mark.req("K37")
    @checked
    async def test_others_are_told_of_tickets_that_lost_two_owners_too(self, scene: Scene) -> None:
        run_id = await scene.start()
        for name in ("w1", "w2"):
            await scene.worker(name)
            await scene.worker("watch")
            await scene.claim_as(name)
            await scene.beat("watch", 2 * LEASE_SECONDS)
            await scene.store.reap()

        [ticket] = await scene.store.list_others((QUEUE,), ())

        assert (ticket.run_id, ticket.losses) == (run_id, 2)

    @pytest.mark.req("K37")
    @checked
    async def test_a_rerouted_run_is_work_of_another_kind(self, scene: Scene) -> None:
        run_id = await scene.suspended()
        await scene.deliver(scene.signal(run_id))

        assert await scene.store.reroute(run_id, needs=NEEDS, to="unserved")

        assert not await scene.store.reroute(run_id, needs=NEEDS, to="unserved")
        assert await scene.claim_as("w1") == []
        [claim] = await scene.claim_as("w1", needs=("unserved",))
        assert (claim.run_id, claim.needs, len(claim.inbox)) == (run_id, "unserved", 1)

    @pytest.mark.req("K37")
    @checked
    async def test_what_somebody_has_or_nobody_knows_is_not_rerouted(self, scene: Scene) -> None:
        owner = await scene.begun()

        assert not await scene.store.reroute(owner.run_id, needs=NEEDS, to="unserved")
        assert not await scene.store.reroute(RunId("nobody"), needs=NEEDS, to="unserved")

        ticket = NewTicket(path="x", queue="gpu", needs="step:x", seq=3)
        scheduled = written(StepScheduled(step="x", queue="gpu"), "x", 1)
        await scene.ok(scene.member(owner, scheduled, tickets_opened=[ticket], then=scene.park(owner)))
        assert not await scene.store.reroute(owner.run_id, needs="step:x", to="unserved")
