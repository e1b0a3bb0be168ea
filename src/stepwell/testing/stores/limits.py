"""Rules of limits: how many runs of a lane workers may own at once."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.domain.commit import CancelOutcome
from stepwell.domain.lanes import Lane, LaneUse
from stepwell.domain.limits import Limit, LimitScope
from stepwell.testing.stores.scene import QUEUE, Scene, checked


def lane(limit: int | None = None, *, workflow: str = "order", workspace_limit: int | None = None) -> str:
    return Lane("default", workflow, QUEUE, "", workspace_limit, limit).text


def keyed(key: str, limit: int = 1, hold: str = "active") -> str:
    assert hold in ("active", "run")
    return Lane("default", "order", QUEUE, key, None, None, limit, "run" if hold == "run" else "active").text


async def started(scene: Scene, count: int, text: str) -> list[str]:
    """Each due a little later than the one before, so that their order is fixed."""
    runs = []
    for _ in range(count):
        runs.append(await scene.start(lane=text))
        scene.clock.advance(0.01)
    return [str(run) for run in runs]


class LimitRules:
    @pytest.mark.req("K19")
    @checked
    async def test_no_more_of_a_lane_than_its_limit_and_in_order(self, scene: Scene) -> None:
        runs = await started(scene, 5, lane(2))
        await scene.worker()

        first = await scene.claims("w1")
        none = await scene.claims("w1")
        await scene.ok(scene.member(first.claims[0], scene.completed(), then=scene.finish(first.claims[0])))
        third = await scene.claimed_ids("w1")

        assert [claim.run_id for claim in first.claims] == runs[:2]
        assert all(claim.limited for claim in first.claims)
        assert (list(none.claims), none.next_in, none.blocked) == ([], None, True)
        assert third == runs[2:3]

    @pytest.mark.req("K19")
    @checked
    async def test_a_full_lane_holds_up_no_other(self, scene: Scene) -> None:
        await started(scene, 3, lane(1))
        others = await started(scene, 2, lane(1, workflow="other"))
        free = await scene.start()
        await scene.worker()

        taken: list[str] = []
        for _ in range(3):
            taken += await scene.claimed_ids("w1")

        assert len(taken) == 3
        assert free in taken
        assert others[0] in taken

    @pytest.mark.req("K19")
    @checked
    async def test_every_limit_of_a_lane_counts(self, scene: Scene) -> None:
        for workflow in ("a", "b", "c"):
            await started(scene, 2, lane(2, workflow=workflow, workspace_limit=5))
        await scene.worker()

        taken = await scene.claimed_ids("w1")

        assert len(taken) == 5

    @pytest.mark.req("K19")
    @checked
    async def test_suspended_runs_hold_no_slot(self, scene: Scene) -> None:
        first, second = await started(scene, 2, lane(1))
        await scene.worker()
        [claim] = await scene.claim_as("w1")
        await scene.ok(scene.member(claim, scene.claimed(claim), then=scene.park(claim)))

        taken = await scene.claimed_ids("w1")
        await scene.deliver(scene.signal(first))
        woken = await scene.claims("w1")

        assert (claim.run_id, taken) == (first, [second])
        assert (list(woken.claims), woken.blocked) == ([], True)

    @pytest.mark.req("K19")
    @checked
    async def test_held_for_the_run_a_suspended_one_keeps_its_slot(self, scene: Scene) -> None:
        first, second = await started(scene, 2, keyed("customer/7", hold="run"))
        other = await scene.start(lane=keyed("customer/8", hold="run"))
        await scene.worker()
        claims = await scene.claim_as("w1")
        claim = next(claim for claim in claims if claim.run_id == first)
        await scene.ok(scene.member(claim, scene.claimed(claim), then=scene.park(claim)))

        nothing = await scene.claimed_ids("w1")
        await scene.deliver(scene.signal(first))
        [again] = await scene.claim_as("w1")
        await scene.ok(scene.member(again, scene.completed(), then=scene.finish(again)))

        assert sorted(claim.run_id for claim in claims) == sorted([first, other])
        assert (nothing, again.run_id) == ([], first)
        assert await scene.claimed_ids("w1") == [second]

    @pytest.mark.req("K19")
    @checked
    async def test_a_dead_workers_slots_come_free_with_its_lease(self, scene: Scene) -> None:
        runs = await started(scene, 3, lane(2))
        taken = await scene.claimed_ids(await scene.worker())
        await scene.lose("w1")

        again = await scene.claimed_ids("w9")

        assert taken == again == runs[:2]

    @pytest.mark.req("K19")
    @checked
    async def test_a_run_that_must_end_waits_for_no_slot(self, scene: Scene) -> None:
        first, _ = await started(scene, 2, lane(1))
        await scene.worker()
        [claim] = await scene.claim_as("w1")
        await scene.ok(scene.member(claim, scene.claimed(claim), then=scene.park(claim)))
        await scene.claims("w1")

        outcome = await scene.store.cancel(claim.run_id, "enough")
        ending = await scene.claimed_ids("w1")

        assert (outcome, ending) == (CancelOutcome.REQUESTED, [first])

    @pytest.mark.req("K19", "T4")
    @checked
    async def test_a_limit_that_is_set_replaces_what_the_run_brings(self, scene: Scene) -> None:
        await started(scene, 6, lane(1))
        await scene.worker()
        limit = Limit(kind="workflow", workspace="default", name="order", limit=3)

        counts = [len(await scene.claim_as("w1"))]
        await scene.store.put_limit(limit)
        counts.append(len(await scene.claim_as("w1")))
        limits = await scene.store.read_limits()
        await scene.store.put_limit(Limit(kind="workflow", workspace="default", name="order"))
        counts.append(len(await scene.claim_as("w1")))

        assert counts == [1, 2, 3]
        assert list(limits) == [limit]
        assert await scene.store.read_lanes() == [LaneUse(lane(1), 6, 0)]
        assert await scene.store.drop_limit(limit.scope)
        assert not await scene.store.drop_limit(limit.scope)
        assert not await scene.store.read_limits()

    @pytest.mark.req("K19")
    @checked
    async def test_a_queue_has_a_limit_of_its_own(self, scene: Scene) -> None:
        await started(scene, 3, lane(9))
        await started(scene, 3, lane(9, workflow="other"))
        await scene.store.put_limit(Limit(kind="queue", name=QUEUE, limit=4))

        assert len(await scene.claim_as(await scene.worker())) == 4
        assert LimitScope("queue", "", QUEUE) == (await scene.store.read_limits())[0].scope

    @pytest.mark.req("K19", "R2")
    @checked
    async def test_many_claimers_at_once_never_exceed_it(self, scene: Scene) -> None:
        await started(scene, 40, lane(7, workspace_limit=9))
        await started(scene, 40, lane(7, workflow="other", workspace_limit=9))
        workers = [await scene.worker(f"w{number}") for number in range(6)]

        async with asyncio.TaskGroup() as group:
            claiming = [group.create_task(scene.claim_as(w, limit=5)) for w in workers for _ in range(3)]
        taken = [claim.run_id for task in claiming for claim in task.result()]
        use = {use.lane: use.leased for use in await scene.store.read_lanes()}

        assert len(taken) == len(set(taken)) == sum(use.values()) == 9
        assert max(use.values()) <= 7

    @pytest.mark.req("K16", "K19")
    @checked
    async def test_next_in_looks_at_lanes_too(self, scene: Scene) -> None:
        await scene.start(lane=lane(1), delay=30.0)
        await scene.start(delay=40.0)
        scene.clock.advance(1.0)

        claims = await scene.claims(await scene.worker())

        assert (list(claims.claims), claims.next_in, claims.blocked) == ([], 29.0, False)

    @pytest.mark.req("K3", "K19")
    @checked
    async def test_asked_again_it_gives_what_it_gave_within_limits(self, scene: Scene) -> None:
        runs = await started(scene, 3, lane(2))
        worker = await scene.worker()
        first = await scene.claims(worker)
        leases = [claim.lease for claim in first.claims]

        again = await scene.store.claim(scene.request(worker, leases))

        assert [claim.run_id for claim in again.claims] == runs[:2]
        assert [claim.lease for claim in again.claims] == leases
        assert all(claim.limited for claim in again.claims)

    @pytest.mark.req("K19", "K22")
    @checked
    async def test_lanes_of_other_queues_and_versions_are_left_alone(self, scene: Scene) -> None:
        await scene.start(lane=Lane("default", "order", "gpu", workflow_limit=5).text, queue="gpu")
        await scene.start(lane=lane(5), needs="order@2")
        mine = await scene.start(lane=lane(5))

        assert await scene.claimed_ids(await scene.worker()) == [mine]
