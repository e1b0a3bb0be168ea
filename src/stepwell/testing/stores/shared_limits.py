"""Rules of limits for runs without one of their own, for children, and for lanes next to plain tickets."""

from __future__ import annotations

import pytest

from stepwell.domain.lanes import Lane, read_lane
from stepwell.domain.limits import Limit, LimitKind
from stepwell.testing.stores.limits import lane, started
from stepwell.testing.stores.scene import QUEUE, Scene, checked


def limit(kind: LimitKind, name: str, number: int | None, hold: str = "active") -> Limit:
    workspace = "" if kind == "queue" else "default"
    return Limit(
        kind=kind, workspace=workspace, name=name, limit=number, hold="run" if hold == "run" else "active"
    )


def child_lane(limit: int | None = None) -> str:
    return Lane("default", "order", QUEUE, "", None, limit, child=True).text


async def two_at_a_time(scene: Scene, most_two: Limit) -> None:
    runs = await started(scene, 5, "")
    worker = await scene.worker()
    await scene.store.put_limit(most_two)

    first = await scene.claims(worker)
    none = await scene.claims(worker)
    claim = first.claims[0]
    await scene.ok(scene.member(claim, scene.completed(), then=scene.finish(claim)))
    third = await scene.claimed_ids(worker)

    assert [claim.run_id for claim in first.claims] == runs[:2]
    assert all(claim.limited for claim in first.claims)
    assert (list(none.claims), none.blocked) == ([], True)
    assert third == runs[2:3]


async def child_in_its_parents_slot(scene: Scene, own: str, childs: str) -> None:
    await scene.store.put_limit(limit("workflow", "order", 1, hold="run"))
    parent, second = await started(scene, 2, own)
    worker = await scene.worker()
    [claim] = await scene.claim_as(worker)
    child = await scene.start(lane=childs, parent=parent, parent_path="c")
    await scene.ok(scene.member(claim, scene.claimed(claim), then=scene.park(claim)))

    [taken] = await scene.claim_as(worker)
    blocked = await scene.claimed_ids(worker)
    await scene.ok(scene.member(taken, scene.completed(), then=scene.finish(taken)))
    await scene.deliver(scene.signal(parent))
    [again] = await scene.claim_as(worker)
    await scene.ok(scene.member(again, scene.completed(), then=scene.finish(again)))

    assert (claim.run_id, taken.run_id, blocked, again.run_id) == (parent, child, [], parent)
    assert await scene.claimed_ids(worker) == [second]


class ReachRules:
    @pytest.mark.req("K19")
    @checked
    async def test_a_queues_limit_counts_runs_that_bring_none(self, scene: Scene) -> None:
        await two_at_a_time(scene, limit("queue", QUEUE, 2))

    @pytest.mark.req("K19")
    @checked
    async def test_a_workflows_limit_counts_runs_that_bring_none(self, scene: Scene) -> None:
        await two_at_a_time(scene, limit("workflow", "order", 2))

    @pytest.mark.req("K19")
    @checked
    async def test_a_workspaces_limit_counts_runs_that_bring_none(self, scene: Scene) -> None:
        await two_at_a_time(scene, limit("workspace", "", 2))

    @pytest.mark.req("K19")
    @checked
    async def test_runs_that_were_claimed_before_count_as_well(self, scene: Scene) -> None:
        await started(scene, 6, "")
        worker = await scene.worker()
        taken = await scene.claimed_ids(worker, limit=2)
        await scene.store.put_limit(limit("queue", QUEUE, 3))

        more = await scene.claimed_ids(worker)
        use = await scene.store.read_lanes()

        assert (len(taken), len(more)) == (2, 1)
        assert [(read_lane(use.lane), use.leased) for use in use] == [(Lane("default", "order", QUEUE), 3)]

    @pytest.mark.req("K19")
    @checked
    async def test_runs_out_of_its_reach_are_claimed_as_before(self, scene: Scene) -> None:
        await started(scene, 3, "")
        other = await scene.start(queue="gpu")
        named = await scene.start(needs="order-late@1", workflow="order-late", queue="gpu")
        worker = await scene.worker()
        await scene.store.put_limit(limit("queue", QUEUE, 1))
        await scene.store.put_limit(limit("workflow", "unknown", 0))
        needs = ("order@1", "order-late@1")

        taken = await scene.claims(worker, queues=(QUEUE, "gpu"), needs=needs)

        assert {claim.run_id: claim.limited for claim in taken.claims if claim.run_id in (other, named)} == {
            other: False,
            named: False,
        }
        assert len(taken.claims) == 3

    @pytest.mark.req("K19")
    @checked
    async def test_a_limit_that_is_dropped_counts_nothing_any_more(self, scene: Scene) -> None:
        runs = await started(scene, 4, "")
        worker = await scene.worker()
        await scene.store.put_limit(limit("queue", QUEUE, 1))
        first = await scene.claimed_ids(worker)
        await scene.store.drop_limit(limit("queue", QUEUE, 1).scope)

        assert first + await scene.claimed_ids(worker) == runs

    @pytest.mark.req("K19")
    @checked
    async def test_a_limit_reaches_a_long_queue_in_order(self, scene: Scene) -> None:
        runs = [scene.new_run() for _ in range(1200)]
        await scene.store.start(runs)
        worker = await scene.worker()
        await scene.store.put_limit(limit("queue", QUEUE, 3))

        taken = await scene.claimed_ids(worker, limit=2)
        taken += await scene.claimed_ids(worker, limit=2)
        full = await scene.claims(worker)
        await scene.store.drop_limit(limit("queue", QUEUE, 3).scope)
        rest = [run for _ in range(12) for run in await scene.claimed_ids(worker)]

        assert (list(full.claims), full.blocked) == ([], True)
        assert taken + rest == [run.id for run in runs]

    @pytest.mark.req("K19", "K11")
    @checked
    async def test_children_count_while_they_are_active(self, scene: Scene) -> None:
        [parent] = await started(scene, 1, lane(2))
        worker = await scene.worker()
        await scene.claims(worker)
        for number in range(2):
            await scene.start(lane=child_lane(2), parent=parent, parent_path=f"c{number}")

        assert len(await scene.claim_as(worker)) == 1

    @pytest.mark.req("K19", "K11")
    @checked
    async def test_a_child_goes_before_runs_that_have_not_begun(self, scene: Scene) -> None:
        await started(scene, 3, lane(1))
        child = await scene.start(lane=child_lane(1), parent="r0001", parent_path="c")

        assert await scene.claimed_ids(await scene.worker()) == [child]

    @pytest.mark.req("K19", "K11")
    @checked
    async def test_a_parent_that_holds_its_slot_to_the_end_keeps_no_child_back(self, scene: Scene) -> None:
        await child_in_its_parents_slot(scene, lane(1), child_lane(1))

    @pytest.mark.req("K19", "K11")
    @checked
    async def test_nor_a_child_that_brings_no_limit(self, scene: Scene) -> None:
        await child_in_its_parents_slot(scene, "", "")

    @pytest.mark.req("K19", "K21")
    @checked
    async def test_tickets_with_and_without_a_lane_are_taken_in_one_order(self, scene: Scene) -> None:
        expected: list[str] = []
        for number in range(8):
            own = lane(5) if number % 2 else ""
            expected.append(str(await scene.start(lane=own, priority=1 if number > 5 else 0)))
            scene.clock.advance(0.01)
        worker = await scene.worker()

        taken = [run for _ in range(4) for run in await scene.claimed_ids(worker, limit=2)]

        assert taken == expected[6:] + expected[:6]

    @pytest.mark.req("K19")
    @checked
    async def test_a_suspended_run_of_a_lane_is_no_reason_to_look_again(self, scene: Scene) -> None:
        await scene.suspended(lane=lane(1))
        mine = await scene.start()
        worker = await scene.worker()

        first, second = await scene.claims(worker), await scene.claims(worker)

        assert [claim.run_id for claim in first.claims] == [mine]
        assert (list(second.claims), second.next_in, second.blocked) == ([], None, False)
