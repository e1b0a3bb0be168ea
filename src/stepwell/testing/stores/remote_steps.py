"""Rules of remote steps: a ticket of their own, fenced by its own lease."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw

from stepwell.domain.commit import Claim, NewTicket, Outcome, Owned
from stepwell.domain.events import StepScheduled, written
from stepwell.domain.ids import LeaseId, RunId
from stepwell.domain.messages import EndNotice, step_ended
from stepwell.testing.stores.scene import LEASE_SECONDS, Scene, checked

PATH = "resize#1"
SCHEDULED = written(StepScheduled(step="resize", queue="gpu", args=Raw(b"[1]")), PATH, 1)
TICKET = NewTicket(path=PATH, queue="gpu", needs="step:resize", seq=3, priority=2)
RESULT = EndNotice(status="completed", result=Raw(b"7"))


async def scheduled(scene: Scene) -> Claim:
    """A run that waits for its remote step."""
    claim = await scene.begun()
    await scene.ok(
        scene.member(claim, SCHEDULED, tickets_opened=[TICKET], then=scene.park(claim, due_in=300.0))
    )
    return claim


async def taken(scene: Scene, worker: str = "gpu1") -> Claim:
    [claim] = await scene.claim_as(await scene.worker(worker), queues=("gpu",), needs=("step:resize",))
    return claim


class RemoteRules:
    @pytest.mark.req("F6", "G17")
    @checked
    async def test_remote_ticket_brings_its_scheduled_event(self, scene: Scene) -> None:
        owner = await scheduled(scene)
        await scene.deliver(scene.signal(owner.run_id))

        claim = await taken(scene)

        ticket = await scene.ticket(owner.run_id, PATH)
        assert (claim.run_id, claim.path, claim.needs, claim.head) == (owner.run_id, PATH, "step:resize", 3)
        assert [(row.seq, row.kind, row.payload) for row in claim.log] == [
            (3, "step_scheduled", SCHEDULED.payload)
        ]
        assert list(claim.inbox) == []
        assert (ticket.owner, ticket.lease, ticket.priority, ticket.queue) == ("gpu1", claim.lease, 2, "gpu")
        assert await scene.beaten("gpu1") == [Owned(owner.run_id, PATH, 0)]

    @pytest.mark.req("F6")
    @checked
    async def test_result_wakes_the_owner_and_drops_the_ticket(self, scene: Scene) -> None:
        owner = await scheduled(scene)
        claim = await taken(scene)
        scene.clock.advance(2.0)

        outcome = await scene.store.finish_remote(claim, step_ended(owner.run_id, PATH, 1, RESULT))

        assert outcome is Outcome.OK
        assert [ticket.path for ticket in await scene.store.read_tickets(owner.run_id)] == [""]
        [again] = await scene.claim_as("w1")
        assert [(row.key, row.kind, row.name) for row in again.inbox] == [(f"step/{PATH}/1", "step", PATH)]

    @pytest.mark.req("F6", "K3", "K6")
    @checked
    async def test_a_result_without_the_lease_is_discarded(self, scene: Scene) -> None:
        owner = await scheduled(scene)
        slow = await taken(scene)
        await scene.worker("w9")
        await scene.beat("w9", 2 * LEASE_SECONDS)
        await scene.store.reap()
        heir = await taken(scene, "gpu2")
        result = step_ended(owner.run_id, PATH, 1, RESULT)

        late = await scene.store.finish_remote(slow, result)
        nothing = await scene.inbox_keys(owner.run_id)
        first = await scene.store.finish_remote(heir, result)
        repeat = await scene.store.finish_remote(heir, result)

        assert (late, nothing, first, repeat) == (Outcome.LOST, [], Outcome.OK, Outcome.LOST)
        assert (heir.losses, heir.lost_lease) == (1, slow.lease)
        assert await scene.inbox_keys(owner.run_id) == [f"step/{PATH}/1"]

    @pytest.mark.req("F6", "G17", "K6")
    @checked
    async def test_results_that_come_at_once_reach_their_runs_each_once(self, scene: Scene) -> None:
        claims = []
        for run in range(3):
            owner = await scene.begun()
            paths = [f"s{run}{i}" for i in range(4)]
            events = [written(StepScheduled(step="resize", queue="gpu"), path, 1) for path in paths]
            opened = [
                NewTicket(path=path, queue="gpu", needs="step:resize", seq=3 + i)
                for i, path in enumerate(paths)
            ]
            parked = scene.park(owner, due_in=300.0)
            await scene.ok(scene.member(owner, *events, tickets_opened=opened, then=parked))
        gpu = await scene.worker("gpu1")
        claims = list(await scene.claim_as(gpu, queues=("gpu",), needs=("step:resize",)))
        assert len(claims) == 12
        stranger = claims[0]._replace(lease=LeaseId("another"))

        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    scene.store.finish_remote(claim, step_ended(claim.run_id, claim.path, 1, RESULT))
                )
                for claim in [stranger, *claims, *claims]
            ]

        outcomes = [task.result() for task in tasks]
        assert outcomes[0] is Outcome.LOST
        assert sorted(outcomes[1:]) == sorted([Outcome.OK] * 12 + [Outcome.LOST] * 12)
        for run_id in {claim.run_id for claim in claims}:
            wanted = sorted(f"step/{c.path}/1" for c in claims if c.run_id == run_id)
            assert sorted(await scene.inbox_keys(run_id)) == wanted
            assert [ticket.path for ticket in await scene.store.read_tickets(run_id)] == [""]
            assert (await scene.ticket(run_id)).wakes == 4

    @pytest.mark.req("F6", "K12")
    @checked
    async def test_owner_withdraws_a_step_in_the_same_commit(self, scene: Scene) -> None:
        owner = await scheduled(scene)
        claim = await taken(scene)
        scene.clock.advance(300.0)
        [owner] = await scene.claim_as(await scene.worker("w2"))

        await scene.ok(scene.member(owner, scene.done("timeout"), tickets_closed=[PATH]))

        assert await scene.beaten("gpu1") == []
        result = step_ended(owner.run_id, PATH, 1, RESULT)
        assert await scene.store.finish_remote(claim, result) is Outcome.LOST
        assert await scene.inbox_keys(owner.run_id) == []

    @pytest.mark.req("F6")
    @checked
    async def test_a_step_is_withdrawn_and_opened_again_at_once(self, scene: Scene) -> None:
        owner = await scheduled(scene)
        old = await taken(scene)
        await scene.deliver(scene.signal(owner.run_id))
        [owner] = await scene.claim_as("w1")
        again = NewTicket(path=PATH, queue="gpu", needs="step:resize", seq=5)

        await scene.ok(
            scene.member(owner, scene.done("x"), SCHEDULED, tickets_closed=[PATH], tickets_opened=[again])
        )

        new = await taken(scene, "gpu2")
        result = step_ended(owner.run_id, PATH, 2, RESULT)
        assert (new.head, [row.seq for row in new.log]) == (5, [5])
        assert await scene.store.finish_remote(old, result) is Outcome.LOST
        assert await scene.store.finish_remote(new, result) is Outcome.OK

    @pytest.mark.req("F6")
    @checked
    async def test_finish_of_the_run_drops_its_remote_tickets(self, scene: Scene) -> None:
        owner = await scheduled(scene)
        claim = await taken(scene)
        await scene.deliver(scene.signal(owner.run_id))
        [owner] = await scene.claim_as("w1")

        await scene.ok(scene.member(owner, scene.completed(), then=scene.finish(owner)))

        result = step_ended(owner.run_id, PATH, 1, RESULT)
        assert list(await scene.store.read_tickets(owner.run_id)) == []
        assert await scene.store.finish_remote(claim, result) is Outcome.LOST

    @pytest.mark.req("F6", "R7")
    @checked
    async def test_remote_ticket_is_due_now_whatever_the_log_says(self, scene: Scene) -> None:
        owner = await scene.begun()
        scene.clock.set_back(86400.0)

        await scene.ok(scene.member(owner, SCHEDULED, tickets_opened=[TICKET]))

        assert (await taken(scene)).path == PATH

    @checked
    async def test_remote_tickets_are_listed_after_their_run(self, scene: Scene) -> None:
        owner = await scene.begun()
        opened = [NewTicket(path=path, queue="gpu", needs="step:x", seq=3) for path in ("b", "a", "Z")]

        await scene.ok(scene.member(owner, SCHEDULED, tickets_opened=opened))

        tickets = await scene.store.read_tickets(RunId(owner.run_id))
        assert [ticket.path for ticket in tickets] == ["", "Z", "a", "b"]
