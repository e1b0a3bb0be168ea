"""Rules of holding and releasing runs, and of ending them by force."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from stepwell.domain.commit import CancelOutcome, HoldOutcome, NewTicket, Outcome
from stepwell.domain.events import Cancelled, Held, Released, read_as
from stepwell.domain.holds import HoldRequest, read_hold
from stepwell.domain.ids import RunId
from stepwell.domain.messages import EndNotice
from stepwell.domain.status import Status
from stepwell.testing.stores.scene import Scene, checked


class HoldRules:
    @pytest.mark.req("K39")
    @checked
    async def test_a_held_run_is_not_claimed(self, scene: Scene) -> None:
        run_id, other = await scene.start(), await scene.start()
        await scene.worker()

        assert await scene.store.hold(run_id, by="ann", reason="wrong price") is HoldOutcome.CHANGED

        row, ticket = await scene.run(run_id), await scene.ticket(run_id)
        assert (row.status, row.held) == (Status.PENDING, True)
        assert ticket.held is not None
        assert read_hold(ticket.held) == HoldRequest(by="ann", reason="wrong price", at=scene.clock())
        fact = read_as(Held, (await scene.log(run_id))[-1])
        assert (fact.by, fact.reason) == ("ann", "wrong price")
        answer = await scene.claims("w1")
        assert [claim.run_id for claim in answer.claims] == [other]
        assert answer.next_in is None, "nothing will be due by itself"

    @pytest.mark.req("K39")
    @checked
    async def test_a_released_run_is_claimed_with_its_whole_log(self, scene: Scene) -> None:
        run_id = await scene.start()
        await scene.worker()
        await scene.store.hold(run_id)

        assert await scene.store.hold(run_id, held=False, by="bob", reason="fixed") is HoldOutcome.CHANGED

        assert not (await scene.run(run_id)).held
        [claim] = (await scene.claims("w1")).claims
        assert [row.kind for row in claim.log] == ["accepted", "held", "released"]
        assert (read_as(Released, claim.log[-1]).by, claim.head) == ("bob", 3)
        await scene.ok(scene.member(claim, scene.claimed(claim)))

    @pytest.mark.req("K39")
    @checked
    async def test_messages_arrive_and_timers_wait_while_a_run_is_held(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.ok(scene.member(claim, scene.done("a"), then=scene.park(claim, due_in=60.0)))
        run_id = claim.run_id
        await scene.store.hold(run_id)

        await scene.deliver(scene.signal(run_id))
        scene.clock.advance(120.0)
        await scene.worker()

        assert await scene.claimed_ids("w1") == []
        assert await scene.inbox_keys(run_id) == ["s1"]
        assert (await scene.run(run_id)).status is Status.SUSPENDED
        await scene.store.hold(run_id, held=False)
        assert await scene.claimed_ids("w1") == [run_id]

    @pytest.mark.req("K39")
    @checked
    async def test_the_owner_of_a_held_run_gets_a_message_and_can_park(self, scene: Scene) -> None:
        claim = await scene.begun()

        assert await scene.store.hold(claim.run_id, by="ann") is HoldOutcome.CHANGED

        [message] = await scene.store.read_inbox(claim.run_id)
        assert (message.kind, message.by, read_hold(message.payload)) == (
            "hold",
            "ann",
            HoldRequest(by="ann"),
        )
        assert len(await scene.log(claim.run_id)) == 2, "only the owner writes its log"
        commit = scene.member(
            claim,
            scene.done("a"),
            consumed=[message.key],
            then=scene.park(claim, Status.RUNNING, seen=1, due_in=0.0),
        )
        await scene.ok(commit)
        assert await scene.claimed_ids("w1") == []
        assert (await scene.run(claim.run_id)).held

    @pytest.mark.req("K39", "K5")
    @checked
    async def test_a_hold_outlives_a_lost_owner(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.store.hold(claim.run_id)

        await scene.store.deregister(await scene.worker())
        await scene.worker("w2")

        assert await scene.claimed_ids("w2") == []
        await scene.store.hold(claim.run_id, held=False)
        [again] = (await scene.claims("w2")).claims
        assert [read_hold(row.payload).held for row in again.inbox] == [True, False], "in their order"

    @pytest.mark.req("K39", "K6")
    @checked
    async def test_holding_twice_is_holding_once(self, scene: Scene) -> None:
        idle, owned = await scene.suspended(), (await scene.begun()).run_id
        for run_id in (idle, owned):
            await scene.store.hold(run_id)
        before = await scene.everything()

        again = [await scene.store.hold(run_id) for run_id in (idle, owned)]

        assert again == [HoldOutcome.ALREADY] * 2
        assert await scene.everything() == before
        free = await scene.start()
        assert await scene.store.hold(free, held=False) is HoldOutcome.ALREADY

    @pytest.mark.req("K39")
    @checked
    async def test_what_cannot_be_held_says_so(self, scene: Scene) -> None:
        ended, ending = await scene.failed(), await scene.suspended()
        await scene.store.cancel(ending, "")

        assert await scene.store.hold(ended) is HoldOutcome.ENDED
        assert await scene.store.hold(ending) is HoldOutcome.ENDING
        assert await scene.store.hold(RunId("nobody")) is HoldOutcome.UNKNOWN

    @pytest.mark.req("K39", "K13")
    @checked
    async def test_a_cancel_releases_a_held_run(self, scene: Scene) -> None:
        waiting, fresh = await scene.suspended(), await scene.start()
        for run_id in (fresh, waiting):
            await scene.store.hold(run_id)

        outcomes = [await scene.store.cancel(run_id, "") for run_id in (fresh, waiting)]

        assert outcomes == [CancelOutcome.ENDED, CancelOutcome.REQUESTED]
        assert await scene.claimed_ids("w1") == [waiting]
        assert not (await scene.run(fresh)).held

    @pytest.mark.req("K39", "K21")
    @checked
    async def test_remote_steps_of_a_held_run_wait_too(self, scene: Scene) -> None:
        claim = await scene.begun()
        first = NewTicket(path="a", queue="gpu", needs="step:a", seq=2)
        await scene.ok(scene.member(claim, tickets_opened=[first]))
        await scene.store.hold(claim.run_id)
        later = NewTicket(path="b", queue="gpu", needs="step:a", seq=2)
        await scene.ok(scene.member(claim, tickets_opened=[later]))

        taken = await scene.claims("w1", queues=("gpu",), needs=("step:a",))
        await scene.store.hold(claim.run_id, held=False)
        after = await scene.claims("w1", queues=("gpu",), needs=("step:a",))

        assert [claim.path for claim in taken.claims] == []
        assert [claim.path for claim in after.claims] == ["a", "b"]

    @pytest.mark.req("K39")
    @checked
    async def test_a_held_run_that_lost_two_owners_keeps_nobody_busy(self, scene: Scene) -> None:
        claim = await scene.begun()
        for name in ("w1", "w2"):
            await scene.store.deregister(await scene.worker(name))
            await scene.worker("w2")
            await scene.claims("w2", solo=name == "w2")
        await scene.store.hold(claim.run_id)
        await scene.store.deregister(await scene.worker("w2"))

        assert not (await scene.store.reap()).solo_due

    @pytest.mark.req("K39", "K29")
    @checked
    async def test_a_held_run_is_held_where_it_is_restored(self, scene: Scene) -> None:
        run_id = await scene.start(key="")
        await scene.store.hold(run_id, by="ann")
        [copy] = await scene.store.read_tree(run_id)

        await scene.store.restore([msgspec.structs.replace(copy, id=RunId("copy"))])

        assert (await scene.run("copy")).held
        ticket = await scene.ticket("copy")
        assert ticket.held is not None
        assert read_hold(ticket.held).by == "ann"

    @pytest.mark.req("K39")
    @checked
    async def test_hold_against_claim_has_one_winner(self, scene: Scene) -> None:
        await scene.worker()
        runs = [await scene.start() for _ in range(8)]

        async with asyncio.TaskGroup() as group:
            claiming = group.create_task(scene.claims("w1"))
            holds = [group.create_task(scene.store.hold(run_id)) for run_id in runs]

        taken = {claim.run_id for claim in claiming.result().claims}
        assert {hold.result() for hold in holds} == {HoldOutcome.CHANGED}
        for run_id in runs:
            inbox = await scene.store.read_inbox(run_id)
            assert [row.kind for row in inbox] == (["hold"] if run_id in taken else [])
        assert await scene.claimed_ids("w1") == []


class ForceRules:
    @pytest.mark.req("K39", "K3")
    @checked
    async def test_a_forced_end_takes_the_run_from_its_owner(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.deliver(scene.signal(claim.run_id))

        outcome = await scene.store.force_end(claim.run_id, "stuck", by="ann")

        row = await scene.run(claim.run_id)
        fact = read_as(Cancelled, (await scene.log(claim.run_id))[-1])
        assert (outcome, row.status) == (CancelOutcome.ENDED, Status.CANCELLED)
        assert (fact.reason, fact.by, fact.forced, fact.unconsumed) == ("stuck", "ann", True, ["s1"])
        assert list(await scene.store.read_tickets(claim.run_id)) == []
        late = await scene.commit(scene.member(claim, scene.done("a")))
        assert late.outcome is Outcome.LOST
        assert list(await scene.beaten(await scene.worker()) or []) == []

    @pytest.mark.req("K39", "K13")
    @checked
    async def test_a_run_that_hangs_in_its_cleanup_can_be_forced(self, scene: Scene) -> None:
        run_id = await scene.suspended()
        await scene.store.cancel(run_id, "")

        assert await scene.store.force_end(run_id, "") is CancelOutcome.ENDED
        assert (await scene.run(run_id)).status is Status.CANCELLED

    @pytest.mark.req("K39", "K18")
    @checked
    async def test_parent_and_children_hear_of_a_forced_end(self, scene: Scene) -> None:
        parent = await scene.suspended()
        claim = await scene.begun(parent=parent, parent_path="c#1")
        children = [
            scene.new_run(parent=claim.run_id, parent_path=f"d#{i}", needs=f"other@{i}") for i in range(2)
        ]
        remote = NewTicket(path="a", queue="gpu", needs="step:a", seq=2)
        await scene.ok(scene.member(claim, starts=children, tickets_opened=[remote]))
        await scene.store.cancel(children[0].id, "")

        await scene.store.force_end(claim.run_id, "stuck")

        [notice] = await scene.store.read_inbox(parent)
        assert notice.key == f"child/{claim.run_id}/3"
        assert msgspec.json.decode(notice.payload, type=EndNotice).status == Status.CANCELLED
        [asked] = await scene.store.read_inbox(children[1].id)
        assert (asked.key, asked.payload) == (
            "cancel",
            f'"parent run {claim.run_id} was ended by force"'.encode(),
        )
        assert list(await scene.store.read_tickets(claim.run_id)) == []

    @pytest.mark.req("K39", "K6")
    @checked
    async def test_forcing_twice_is_forcing_once(self, scene: Scene) -> None:
        run_id = await scene.suspended()
        await scene.store.force_end(run_id, "")
        before = await scene.everything()

        assert await scene.store.force_end(run_id, "") is CancelOutcome.ALREADY
        assert await scene.store.force_end(RunId("nobody"), "") is CancelOutcome.UNKNOWN
        assert await scene.everything() == before

    @pytest.mark.req("K39", "K3")
    @checked
    async def test_a_forced_end_against_a_commit_has_one_winner(self, scene: Scene) -> None:
        claim = await scene.begun()

        async with asyncio.TaskGroup() as group:
            commit = group.create_task(scene.commit(scene.member(claim, scene.done("a"))))
            forced = group.create_task(scene.store.force_end(claim.run_id, ""))

        assert forced.result() is CancelOutcome.ENDED
        kinds = [row.kind for row in await scene.log(claim.run_id)]
        wrote = commit.result().outcome is Outcome.OK
        assert kinds == ["accepted", "claimed", *(["step_completed"] if wrote else []), "cancelled"]
