"""Rules of starts that name an owner: when it gets the run at once, and when it does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell.domain.commit import Claim, NewRun, Outcome
from stepwell.domain.ids import LeaseId, WorkerId
from stepwell.domain.limits import Limit
from stepwell.domain.status import Status
from stepwell.testing.stores.limits import keyed, lane
from stepwell.testing.stores.scene import NEEDS, Scene, checked


async def start_own(scene: Scene, **changes: Any) -> tuple[NewRun, Claim | None]:
    new = scene.new_run(**{"owner": "w1", "lease": scene.fresh("lease"), **changes})
    [started] = await scene.store.start([new])
    assert started.created
    return new, started.claim


class OwnStartRules:
    @pytest.mark.req("K3")
    @checked
    async def test_the_worker_that_a_start_names_owns_the_run(self, scene: Scene) -> None:
        await scene.worker("w1")

        new, claim = await start_own(scene)

        ticket = await scene.ticket(new.id)
        assert claim is not None
        assert (claim.run_id, claim.path, claim.needs, claim.lease) == (new.id, "", NEEDS, new.lease)
        assert (claim.head, claim.wakes, claim.losses, claim.lost_lease) == (1, 0, 0, "")
        assert (list(claim.log), list(claim.inbox)) == (list(await scene.log(new.id)), [])
        assert (ticket.owner, ticket.lease, ticket.started) == ("w1", new.lease, True)
        assert (await scene.run(new.id)).status is Status.RUNNING

    @pytest.mark.req("K3")
    @checked
    async def test_nobody_else_gets_it_and_its_owner_may_write(self, scene: Scene) -> None:
        await scene.worker("w1")
        new, claim = await start_own(scene)
        assert claim is not None

        assert await scene.claimed_ids(await scene.worker("w2")) == []
        committed = await scene.commit(scene.member(claim, scene.claimed(claim), scene.done("a")))

        assert committed.outcome is Outcome.OK
        assert await scene.kinds(new.id) == ["accepted", "claimed", "step_completed"]

    @checked
    async def test_many_at_once_some_of_them_owned(self, scene: Scene) -> None:
        await scene.worker("w1")
        runs = [scene.new_run(owner="w1" if n % 2 else "", lease=f"l{n}") for n in range(6)]

        started = await scene.store.start(runs)

        assert [answer.claim is not None for answer in started] == [False, True] * 3
        assert [a.claim.lease for a in started if a.claim is not None] == ["l1", "l3", "l5"]
        assert await scene.claimed_ids("w1") == [run.id for run in runs[::2]]

    @pytest.mark.req("K3")
    @checked
    async def test_a_worker_that_is_not_known_owns_nothing(self, scene: Scene) -> None:
        await scene.worker("w2")

        new, claim = await start_own(scene)

        ticket = await scene.ticket(new.id)
        assert (claim, ticket.owner, ticket.lease, ticket.started) == (None, "", "", False)
        assert await scene.claimed_ids("w2") == [new.id]

    @checked
    async def test_a_run_that_is_due_later_waits(self, scene: Scene) -> None:
        await scene.worker("w1")

        new, claim = await start_own(scene, delay=10.0)

        assert (claim, await scene.claimed_ids("w1")) == (None, [])
        scene.clock.advance(10.0)
        assert await scene.claimed_ids("w1") == [new.id]

    @pytest.mark.req("K19")
    @checked
    async def test_limits_that_were_set_are_asked_first(self, scene: Scene) -> None:
        await scene.worker("w1")
        await scene.store.put_limit(Limit(kind="workflow", workspace="default", name="order", limit=1))

        new, claim = await start_own(scene)
        _, other = await start_own(scene, lane=lane(1))

        assert (claim, other) == (None, None)
        assert await scene.claimed_ids("w1") == [new.id]

    @pytest.mark.req("K19")
    @checked
    async def test_a_limit_that_a_run_brings_along_leaves_it_to_its_starter_while_there_is_a_slot(
        self, scene: Scene
    ) -> None:
        await scene.worker("w1")

        first, claim = await start_own(scene, lane=lane(1))
        second, none = await start_own(scene, lane=lane(1))

        assert claim is not None
        assert (claim.run_id, claim.limited, none) == (first.id, True, None)
        assert (await scene.ticket(second.id)).owner == ""
        assert await scene.claimed_ids("w1") == []
        await scene.ok(scene.member(claim, scene.completed(), then=scene.finish(claim)))
        assert await scene.claimed_ids("w1") == [second.id]

    @pytest.mark.req("K19")
    @checked
    async def test_of_many_that_start_together_as_many_as_there_are_slots(self, scene: Scene) -> None:
        await scene.worker("w1")
        await start_own(scene, lane=lane(9, workflow="other", workspace_limit=3))
        text = lane(9, workspace_limit=3)
        runs = [scene.new_run(lane=text, owner="w1", lease=f"l{n}") for n in range(4)]

        answers = await scene.store.start(runs)

        assert [answer.claim is not None for answer in answers] == [True, True, False, False]
        assert {use.leased for use in await scene.store.read_lanes()} == {1, 2}

    @pytest.mark.req("K19")
    @checked
    async def test_nobody_who_waits_for_a_slot_is_passed(self, scene: Scene) -> None:
        """In any lane: they may share a limit."""
        await scene.worker("w1")
        waits = await scene.start(lane=lane(1))

        newer, claim = await start_own(scene, lane=lane(5, workflow="other"))

        assert claim is None
        assert await scene.claimed_ids("w1") == [waits, newer.id]

    @pytest.mark.req("K19")
    @checked
    async def test_nobody_is_passed_who_starts_in_the_same_call(self, scene: Scene) -> None:
        await scene.worker("w1")
        runs = [scene.new_run(lane=lane(5), owner=owner, lease=f"l{owner}") for owner in ("", "w1")]

        answers = await scene.store.start(runs)

        assert [answer.claim for answer in answers] == [None, None]
        assert await scene.claimed_ids("w1") == [run.id for run in runs]

    @pytest.mark.req("K19")
    @checked
    async def test_a_suspended_run_of_a_lane_is_not_passed_and_holds_nobody_up(self, scene: Scene) -> None:
        await scene.worker("w1")
        _, claim = await start_own(scene, lane=lane(1))
        assert claim is not None
        await scene.ok(scene.member(claim, scene.claimed(claim), then=scene.park(claim)))
        await scene.start(lane=lane(1), delay=5.0)

        _, claim = await start_own(scene, lane=lane(1))

        assert claim is not None

    @pytest.mark.req("K19")
    @checked
    async def test_what_is_held_for_the_whole_run_counts_suspended_ones(self, scene: Scene) -> None:
        await scene.worker("w1")
        _, claim = await start_own(scene, lane=keyed("k", hold="run"))
        assert claim is not None
        await scene.ok(scene.member(claim, scene.claimed(claim), then=scene.park(claim)))

        _, held = await start_own(scene, lane=keyed("k", hold="run"))

        assert held is None

    @pytest.mark.req("K19", "R2")
    @checked
    async def test_many_starters_and_claimers_at_once_never_exceed_it(self, scene: Scene) -> None:
        workers = [await scene.worker(f"w{number}") for number in range(4)]
        text = lane(7, workspace_limit=9)

        async def begin(worker: str) -> None:
            for _ in range(5):
                await start_own(scene, lane=text, owner=worker)
                await scene.claim_as(WorkerId(worker), limit=2)

        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(begin(worker))

        assert [(use.lane, use.leased) for use in await scene.store.read_lanes()] == [(text, 7)]

    @pytest.mark.req("K19")
    @checked
    async def test_a_limit_without_a_number_keeps_nobody_back(self, scene: Scene) -> None:
        await scene.worker("w1")
        await scene.store.put_limit(Limit(kind="workflow", workspace="default", name="order", limit=None))

        _, claim = await start_own(scene)

        assert claim is not None

    @pytest.mark.req("K19")
    @checked
    async def test_what_was_owned_before_a_limit_was_set_counts(self, scene: Scene) -> None:
        await scene.worker("w1")
        await start_own(scene)
        await scene.store.put_limit(Limit(kind="workflow", workspace="default", name="order", limit=1))
        await start_own(scene)

        assert await scene.claimed_ids("w1") == []

    @pytest.mark.req("K6", "K21")
    @checked
    async def test_a_key_that_exists_gives_its_run_to_nobody(self, scene: Scene) -> None:
        await scene.worker("w1")
        first = await scene.start(key="k")

        [answer] = await scene.store.start([scene.new_run(key="k", owner="w1", lease="l1")])

        assert (answer.run_id, answer.created, answer.claim) == (first, False, None)
        assert (await scene.ticket(first)).owner == ""

    @pytest.mark.req("K6")
    @checked
    async def test_after_a_lost_answer_the_lease_brings_it(self, scene: Scene) -> None:
        await scene.worker("w1")
        new, claim = await start_own(scene)

        [again] = await scene.store.start([new])
        answer = await scene.store.claim(scene.request("w1", [LeaseId(new.lease)]))

        assert (again.run_id, again.claim) == (new.id, None)
        assert list(answer.claims) == [claim]

    @pytest.mark.req("K4")
    @checked
    async def test_the_run_of_a_starter_that_died_goes_on_elsewhere(self, scene: Scene) -> None:
        await scene.worker("w1")
        new, claim = await start_own(scene)
        assert claim is not None

        await scene.lose("w1")

        [taken] = await scene.claim_as("w9")
        assert (taken.run_id, taken.losses, taken.lost_lease) == (new.id, 1, new.lease)
        late = await scene.commit(scene.member(claim, scene.claimed(claim)))
        assert late.outcome is Outcome.LOST

    @checked
    async def test_signing_off_gives_it_back(self, scene: Scene) -> None:
        await scene.worker("w1")
        new, _ = await start_own(scene)

        await scene.store.deregister(WorkerId("w1"))

        [taken] = await scene.claim_as(await scene.worker("w2"))
        assert (taken.run_id, taken.losses) == (new.id, 0)

    @pytest.mark.req("K12")
    @checked
    async def test_a_message_that_came_at_once_is_not_overlooked(self, scene: Scene) -> None:
        await scene.worker("w1")
        new, claim = await start_own(scene)
        assert claim is not None
        await scene.deliver(scene.signal(new.id))

        parked = await scene.commit(scene.member(claim, scene.claimed(claim), then=scene.park(claim)))

        assert (parked.outcome, parked.wakes) == (Outcome.WOKEN, 1)
