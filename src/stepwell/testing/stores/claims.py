"""Rules of claim: who gets which ticket, in which order, with what."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.domain.commit import ClaimRequest
from stepwell.domain.ids import LeaseId, WorkerId
from stepwell.domain.lanes import Lane
from stepwell.testing.stores.scene import NEEDS, QUEUE, Scene, checked


class ClaimRules:
    @pytest.mark.req("K3")
    @checked
    async def test_claim_brings_lease_log_and_inbox(self, scene: Scene) -> None:
        run_id = await scene.suspended()
        await scene.store.deliver([scene.signal(run_id, "b"), scene.signal(run_id, "a")])

        claims = await scene.claims("w1")

        [claim] = claims.claims
        ticket = await scene.ticket(run_id)
        assert (claim.run_id, claim.path, claim.needs) == (run_id, "", NEEDS)
        assert (claim.head, claim.wakes, claim.losses, claim.lost_lease) == (3, 2, 0, "")
        assert list(claim.log) == list(await scene.log(run_id))
        assert [(row.key, row.n) for row in claim.inbox] == [("b", 1), ("a", 2)]
        assert (ticket.owner, ticket.lease, ticket.started) == ("w1", claim.lease, True)
        assert claims.now == scene.clock()

    @pytest.mark.req("K3")
    @checked
    async def test_a_ticket_has_one_owner(self, scene: Scene) -> None:
        for _ in range(40):
            await scene.start()
        workers = [await scene.worker(f"w{number}") for number in range(5)]

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(scene.claims(worker, limit=7)) for worker in workers for _ in range(2)]
        await scene.claims("w0")

        taken = [claim for task in tasks for claim in task.result().claims]
        assert len({claim.run_id for claim in taken}) == len({claim.lease for claim in taken}) == len(taken)
        assert await scene.claimed_ids("w1") == []

    @pytest.mark.req("K21")
    @checked
    async def test_started_before_fresh_then_priority_then_due(self, scene: Scene) -> None:
        resumed, resumed_high = await scene.suspended(), await scene.suspended(priority=5)
        early = await scene.start()
        scene.clock.advance(1.0)
        late = await scene.start()
        scene.clock.advance(1.0)
        high = await scene.start(priority=9)
        await scene.store.deliver([scene.signal(resumed), scene.signal(resumed_high)])

        order = await scene.claimed_ids("w1")

        assert order == [resumed_high, resumed, high, early, late]

    @pytest.mark.req("K41", "K21")
    @checked
    async def test_share_of_the_places_is_for_fresh_tickets_first(self, scene: Scene) -> None:
        begun, fresh = await _both(scene)

        first = await scene.claimed_ids("w1", limit=4, fresh=1)
        second = await scene.claims("w1", limit=4, fresh=2)
        rest = await scene.claims("w1", limit=9, fresh=9)

        assert first == [fresh[0], *begun[:3]]
        assert ([claim.run_id for claim in second.claims], second.next_in) == (
            [*fresh[1:3], *begun[3:5]],
            0.0,
        )
        assert ([claim.run_id for claim in rest.claims], rest.next_in) == ([*fresh[3:], begun[5]], None)

    @pytest.mark.req("K41", "K21")
    @checked
    async def test_share_that_fresh_tickets_do_not_need_goes_to_the_others(self, scene: Scene) -> None:
        begun, fresh = await _both(scene)

        first = await scene.claims("w1", limit=9, fresh=8)
        second = await scene.claims("w1", limit=4, fresh=2)

        assert ([claim.run_id for claim in first.claims], first.next_in) == ([*fresh, *begun[:3]], 0.0)
        assert ([claim.run_id for claim in second.claims], second.next_in) == (begun[3:], None)

    @pytest.mark.req("K41", "K19", "K21")
    @checked
    async def test_fresh_tickets_have_their_share_within_a_limit_too(self, scene: Scene) -> None:
        lane = Lane("", "order", QUEUE, workflow_limit=4).text
        begun, fresh = await _both(scene, lane=lane)

        first = await scene.claims("w1", limit=6, fresh=1)

        assert [claim.run_id for claim in first.claims] == [fresh[0], *begun[:3]]
        assert first.blocked

    @pytest.mark.req("K19")
    @checked
    async def test_first_come_first_served(self, scene: Scene) -> None:
        runs = []
        for _ in range(10):
            runs.append(await scene.start())
            scene.clock.advance(0.5)
        await scene.worker()

        order = [run for _ in range(4) for run in await scene.claimed_ids("w1", limit=3)]

        assert order == runs

    @pytest.mark.req("K8", "K22")
    @checked
    async def test_only_queues_and_versions_that_the_worker_has(self, scene: Scene) -> None:
        mine = await scene.start()
        await scene.start(queue="gpu")
        await scene.start(needs="order@2")
        both = await scene.start(queue="gpu", needs="order@2")
        await scene.worker()

        here = await scene.claimed_ids("w1")
        there = await scene.claimed_ids("w1", queues=("gpu", "other"), needs=("order@2", "order@3"))
        nothing = await scene.claims("w1", queues=("other",))

        assert (here, there) == ([mine], [both])
        assert (list(nothing.claims), nothing.next_in) == ([], None)

    @pytest.mark.req("K22")
    @checked
    async def test_work_this_worker_cannot_do_never_hides_work_it_can(self, scene: Scene) -> None:
        await scene.store.start([scene.new_run(needs="unknown@1", priority=9) for _ in range(300)])
        mine = await scene.start()

        assert await scene.claimed_ids(await scene.worker(), limit=2) == [mine]

    @checked
    async def test_no_more_than_asked_for(self, scene: Scene) -> None:
        await scene.store.start([scene.new_run() for _ in range(5)])
        worker = await scene.worker()

        first = await scene.claims(worker, limit=3)
        rest = await scene.claims(worker, limit=3)

        assert (len(first.claims), first.next_in) == (3, 0.0)
        assert (len(rest.claims), rest.next_in) == (2, None)

    @pytest.mark.req("K16", "K31")
    @checked
    async def test_next_in_is_the_nearest_ticket_it_could_take(self, scene: Scene) -> None:
        for delay in (40.0, 20.0, 30.0):
            await scene.start(delay=delay)
        await scene.start(delay=5.0, needs="order@2")
        await scene.start(delay=6.0, queue="gpu")
        await scene.suspended()
        scene.clock.advance(1.0)

        claims = await scene.claims("w1")

        assert (list(claims.claims), claims.next_in) == ([], 19.0)

    @checked
    async def test_nothing_there_means_no_next_time(self, scene: Scene) -> None:
        claims = await scene.claims(await scene.worker())

        assert (list(claims.claims), claims.now, claims.next_in) == ([], scene.clock(), None)

    @pytest.mark.req("K3")
    @checked
    async def test_a_worker_without_a_row_gets_nothing(self, scene: Scene) -> None:
        run_id = await scene.start()
        never = await scene.claims("stranger")
        await scene.store.deregister(await scene.worker())

        after = await scene.claims("w1")

        assert (list(never.claims), list(after.claims)) == ([], [])
        assert (await scene.ticket(run_id)).owner == ""

    @pytest.mark.req("K33")
    @checked
    async def test_two_losses_make_a_run_solo(self, scene: Scene) -> None:
        run_id = await scene.start()
        other = await scene.start(delay=1000.0)
        for turn in range(2):
            assert run_id in await scene.claimed_ids(await scene.worker(f"w{turn}"))
            await scene.lose(f"w{turn}")
        worker = WorkerId("w9")

        together = await scene.claims(worker)
        [alone] = await scene.claim_as(worker, solo=True)

        assert list(together.claims) == []
        assert together.next_in is not None, f"{other} is due some time"
        assert (alone.run_id, alone.losses) == (run_id, 2)

    @pytest.mark.req("K33")
    @checked
    async def test_solo_leaves_healthy_runs_alone(self, scene: Scene) -> None:
        await scene.start()

        claims = await scene.claims(await scene.worker(), solo=True)

        assert (list(claims.claims), claims.next_in) == ([], None)

    @pytest.mark.req("R2", "R6")
    @checked
    async def test_asked_again_with_the_same_leases_it_takes_nothing_more(self, scene: Scene) -> None:
        """A lost answer must not leave tickets with an owner that does not know of them."""
        runs = [await scene.start() for _ in range(5)]
        leases = [LeaseId(f"again{number}") for number in range(3)]
        request = ClaimRequest(
            worker=await scene.worker(), queues=(QUEUE,), needs=(NEEDS,), limit=3, leases=leases
        )
        first = await scene.store.claim(request)
        await scene.deliver(scene.signal(runs[0]))
        before = await scene.everything()

        second = await scene.store.claim(request)

        assert [(claim.run_id, claim.lease) for claim in first.claims] == list(
            zip(runs, leases, strict=False)
        )
        assert [(c.run_id, c.lease) for c in second.claims] == [(c.run_id, c.lease) for c in first.claims]
        assert [(claim.wakes, len(claim.inbox)) for claim in second.claims] == [(1, 1), (0, 0), (0, 0)]
        assert await scene.everything() == before
        assert await scene.claimed_ids("w1") == runs[3:]

    @checked
    async def test_messages_during_the_claim_are_never_missed(self, scene: Scene) -> None:
        """Every message that `wakes` counts is in the claim's inbox, even if others write meanwhile."""
        runs = [await scene.suspended() for _ in range(10)]
        for turn in range(5):
            async with asyncio.TaskGroup() as group:
                for run_id in runs:
                    group.create_task(scene.deliver(scene.signal(run_id, f"k{turn}")))
                claiming = group.create_task(scene.claims("w1"))
            for claim in claiming.result().claims:
                assert [row.n for row in claim.inbox][: claim.wakes] == list(range(1, claim.wakes + 1))
                assert claim.log[-1].seq == claim.head
                await scene.store.commit([scene.member(claim, then=scene.park(claim, due_in=0.0))])
            await scene.store.deregister(WorkerId("w1"))
            await scene.worker()


async def _both(scene: Scene, **changes: str) -> tuple[list[str], list[str]]:
    """Six started and six fresh runs, all due, in the order of their due times."""
    begun: list[str] = [await scene.suspended(**changes) for _ in range(6)]
    fresh: list[str] = []
    for run_id in begun:
        await scene.deliver(scene.signal(run_id))
        scene.clock.advance(0.5)
        fresh.append(await scene.start(**changes))
    return begun, fresh
