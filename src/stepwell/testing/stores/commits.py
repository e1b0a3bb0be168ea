"""Rules of commit: the fence, and that members do not affect each other."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.domain.commit import Commit, Committed, NewTicket, NewWait, Outcome
from stepwell.domain.events import KIND, Continued, written
from stepwell.domain.ids import LeaseId, RunId
from stepwell.testing.stores.scene import NEEDS, Scene, checked


def loaded(scene: Scene, commit: Commit, target: str) -> Commit:
    """The same member with every write that a refused one must not make."""
    commit.deliveries = [scene.signal(target, key=f"from-{commit.run_id}")]
    commit.starts = [scene.new_run(id=f"child-of-{commit.run_id}", parent=commit.run_id)]
    commit.tickets_opened = [NewTicket(path="remote", queue="gpu", needs="step:x", seq=1)]
    commit.waits_opened = [NewWait(path="wait", kind="decision", name="ask")]
    return commit


class CommitRules:
    @pytest.mark.req("K1", "K2")
    @checked
    async def test_ok_appends_after_head_and_moves_it(self, scene: Scene) -> None:
        claim = await scene.owned()
        scene.clock.advance(1.0)
        events = [scene.claimed(claim), scene.done("a")]

        committed = await scene.commit(scene.member(claim, *events))

        now = scene.clock()
        rows = list(await scene.log(claim.run_id))
        ticket = await scene.ticket(claim.run_id)
        assert committed == Committed(Outcome.OK, 0, now)
        assert rows[1:] == [
            events[0].row(2, now),
            events[1].row(3, now),
        ]
        assert (ticket.head, ticket.lease, ticket.owner) == (3, claim.lease, "w1")

    @pytest.mark.req("K3")
    @checked
    async def test_other_lease_is_lost_and_writes_nothing(self, scene: Scene) -> None:
        claim, target = await scene.begun(), await scene.start()
        before = await scene.everything()

        lost = await scene.commit(
            loaded(scene, scene.member(claim, scene.done("a"), lease=LeaseId("stale")), target)
        )

        assert lost.outcome is Outcome.LOST
        assert await scene.everything() == before

    @pytest.mark.req("K3")
    @checked
    async def test_other_head_is_lost_and_writes_nothing(self, scene: Scene) -> None:
        claim, target = await scene.begun(), await scene.start()
        before = await scene.everything()

        for head in (claim.head - 1, claim.head + 1):
            lost = await scene.commit(loaded(scene, scene.member(claim, scene.done("b"), head=head), target))

            assert lost.outcome is Outcome.LOST
            assert await scene.everything() == before

    @pytest.mark.req("K3")
    @checked
    async def test_ticket_without_owner_admits_nobody(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.ok(scene.member(claim, scene.done("a"), then=scene.park(claim)))
        unknown = Commit(run_id=RunId("nobody"), lease=claim.lease, head=1, events=[scene.done("x")])
        before = await scene.everything()

        parked = await scene.commit(scene.member(claim, scene.done("b"), head=3))
        nowhere = await scene.commit(unknown)

        assert (parked.outcome, nowhere.outcome) == (Outcome.LOST, Outcome.LOST)
        assert await scene.everything() == before

    @pytest.mark.req("K2")
    @checked
    async def test_woken_writes_nothing_and_makes_nothing(self, scene: Scene) -> None:
        claim, target = await scene.begun(), await scene.start()
        await scene.deliver(scene.signal(claim.run_id))
        before = await scene.everything()

        for then in (scene.park(claim), scene.finish(claim)):
            woken = await scene.commit(loaded(scene, scene.member(claim, scene.done("a"), then=then), target))

            assert (woken.outcome, woken.wakes) == (Outcome.WOKEN, 1)
            assert await scene.everything() == before
        assert (await scene.ticket(claim.run_id)).lease == claim.lease

    @pytest.mark.req("K2", "K3")
    @checked
    async def test_each_member_is_judged_alone(self, scene: Scene) -> None:
        for _ in range(5):
            await scene.start()
        claims = await scene.claim_as(await scene.worker())
        target = await scene.start()
        good, stale, woken, parked, last = claims
        await scene.deliver(scene.signal(woken.run_id))
        batch = [
            scene.member(last, scene.claimed(last)),
            loaded(scene, scene.member(stale, scene.done("x"), lease=LeaseId("stale")), target),
            scene.member(parked, scene.claimed(parked), then=scene.park(parked)),
            loaded(scene, scene.member(woken, scene.done("x"), then=scene.park(woken)), target),
            loaded(scene, scene.member(good, scene.claimed(good)), target),
        ]

        outcomes = [committed.outcome for committed in await scene.store.commit(batch)]

        assert outcomes == [Outcome.OK, Outcome.LOST, Outcome.OK, Outcome.WOKEN, Outcome.OK]
        assert await scene.inbox_keys(target) == [f"from-{good.run_id}"]
        assert await scene.store.read_run(RunId(f"child-of-{good.run_id}")) is not None
        assert await scene.store.read_run(RunId(f"child-of-{woken.run_id}")) is None
        assert await scene.store.read_run(RunId(f"child-of-{stale.run_id}")) is None
        assert [len(await scene.log(c.run_id)) for c in (good, stale, woken, parked, last)] == [2, 1, 1, 2, 2]
        assert [t.path for t in await scene.store.read_tickets(good.run_id)] == ["", "remote"]
        assert [t.path for t in await scene.store.read_tickets(woken.run_id)] == [""]

    @pytest.mark.req("K2")
    @checked
    async def test_a_value_no_database_holds_hurts_only_its_own_member(self, scene: Scene) -> None:
        for _ in range(6):
            await scene.start()
        worker = await scene.worker()
        for text in ("\x00", "a\x00b", "\ud800"):
            claims = await scene.claim_as(worker)
            bad = claims[2]
            before = await scene.log(bad.run_id)
            batch = [scene.member(claim, scene.claimed(claim)) for claim in claims]
            batch[2] = scene.member(bad, scene.claimed(bad), scene.done(text))

            outcomes = [committed.outcome for committed in await scene.store.commit(batch)]

            assert outcomes.pop(2) in {Outcome.OK, Outcome.REFUSED}
            assert set(outcomes) == {Outcome.OK}
            if len(await scene.log(bad.run_id)) == len(before):
                assert (await scene.ticket(bad.run_id)).head == bad.head
                await scene.ok(scene.member(bad, scene.claimed(bad)))
            await scene.store.deregister(worker)
            await scene.worker()

    @checked
    async def test_any_payload_comes_back_as_it_was(self, scene: Scene) -> None:
        claim = await scene.begun()
        results = [
            b'"\\u0000"',
            b'"\\ud800"',
            '"\U0001f680\u00e9"'.encode(),
            b"1e400",
            b'"' + b"x" * 300_000 + b'"',
        ]
        events = [scene.done(f"s{place}", result) for place, result in enumerate(results)]

        await scene.ok(scene.member(claim, *events))

        payloads = [row.payload for row in (await scene.log(claim.run_id))[2:]]
        assert payloads == [event.payload for event in events]

    @pytest.mark.req("K2")
    @checked
    async def test_consumed_messages_leave_with_the_commit(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.store.deliver([scene.signal(claim.run_id, key) for key in ("a", "b", "c")])

        await scene.ok(
            scene.member(claim, scene.received("a", 1), scene.received("c", 3), consumed=["a", "c", "gone"])
        )

        assert await scene.inbox_keys(claim.run_id) == ["b"]
        assert (await scene.ticket(claim.run_id)).wakes == 3

    @pytest.mark.req("K33")
    @checked
    async def test_only_a_settled_commit_clears_the_losses(self, scene: Scene) -> None:
        run_id = await scene.start()
        await scene.claim_as(await scene.worker())
        await scene.lose("w1")
        [claim] = await scene.claim_as("w9")

        await scene.ok(scene.member(claim, scene.claimed(claim, "w9"), scene.begins("a")))
        unsettled = (await scene.ticket(run_id)).losses
        await scene.ok(scene.member(claim, scene.done("a"), head=3, settled=True))

        assert (unsettled, (await scene.ticket(run_id)).losses) == (1, 0)

    @checked
    async def test_lost_lease_is_told_until_it_is_in_the_log(self, scene: Scene) -> None:
        first = await scene.owned()
        lost_leases = []
        for owner, heir in (("w1", "w2"), ("w2", "w3")):
            await scene.store.deregister(await scene.worker(owner))
            [claim] = await scene.claim_as(await scene.worker(heir))
            await scene.ok(scene.member(claim))  # without events: still not in the log
            lost_leases.append(claim.lost_lease)
        await scene.ok(scene.member(claim, scene.claimed(claim)))
        await scene.ok(scene.member(claim, head=2, then=scene.park(claim, due_in=0.0)))
        [again] = await scene.claim_as("w3")

        assert lost_leases == [first.lease, first.lease]
        assert again.lost_lease == ""

    @pytest.mark.req("K1")
    @checked
    async def test_replay_begins_at_the_base(self, scene: Scene) -> None:
        claim = await scene.begun()
        fact = written(Continued(generation=1))
        await scene.ok(scene.member(claim, scene.done("a"), fact, scene.done("b"), base=4))
        await scene.ok(scene.member(claim, head=5, then=scene.park(claim, due_in=0.0)))

        [again] = await scene.claim_as("w1")

        assert fact.kind == KIND[Continued]
        assert [row.seq for row in again.log] == [1, 4, 5]
        assert [row.seq for row in await scene.log(claim.run_id)] == [1, 2, 3, 4, 5]
        assert again.needs == NEEDS

    @pytest.mark.req("K3")
    @checked
    async def test_of_two_commits_on_one_head_one_is_written(self, scene: Scene) -> None:
        claim = await scene.begun()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(scene.commit(scene.member(claim, scene.done(f"by-{number}"))))
                for number in range(6)
            ]

        outcomes = sorted(task.result().outcome for task in tasks)

        assert outcomes == [Outcome.LOST] * 5 + [Outcome.OK]
        assert [row.seq for row in await scene.log(claim.run_id)] == [1, 2, 3]

    @pytest.mark.slow
    @checked
    async def test_five_hundred_members_are_one_batch(self, scene: Scene) -> None:
        await scene.store.start([scene.new_run() for _ in range(500)])
        claims = await scene.claim_as(await scene.worker(), limit=500)
        batch = [scene.member(claim, scene.claimed(claim), scene.done("a")) for claim in reversed(claims)]

        answer = await scene.store.commit(batch)

        assert [committed.outcome for committed in answer] == [Outcome.OK] * 500
        assert {len(await scene.log(claim.run_id)) for claim in claims[::50]} == {3}

    @checked
    async def test_nothing_to_commit_is_no_error(self, scene: Scene) -> None:
        claim = await scene.begun()

        committed = await scene.commit(scene.member(claim))

        assert list(await scene.store.commit([])) == []
        assert (committed.outcome, (await scene.ticket(claim.run_id)).head) == (Outcome.OK, 2)
