"""Rules of park and finish: the lease is released only if every message was read."""

from __future__ import annotations

import pytest

from stepwell.domain.commit import NEVER, Delivery, NewTicket, NewWait, Outcome
from stepwell.domain.status import Status
from stepwell.testing.stores.scene import Scene, checked


class ParkRules:
    @pytest.mark.req("K2", "K16")
    @checked
    async def test_park_gives_the_lease_back_until_due(self, scene: Scene) -> None:
        claim = await scene.begun()
        scene.clock.advance(1.0)
        then = scene.park(claim, due_in=30.0, where_at="sleep", started_at=scene.clock())

        await scene.ok(scene.member(claim, scene.done("a"), then=then))

        row, ticket = await scene.run(claim.run_id), await scene.ticket(claim.run_id)
        assert (row.status, row.where_at, row.started_at) == (Status.SUSPENDED, "sleep", scene.clock())
        assert (ticket.owner, ticket.lease, ticket.due_at) == ("", "", scene.clock() + 30.0)
        assert await scene.claimed_ids("w1") == []
        scene.clock.advance(30.0)
        assert await scene.claimed_ids("w1") == [claim.run_id]

    @checked
    async def test_due_is_the_earlier_of_time_and_interval(self, scene: Scene) -> None:
        claim = await scene.begun()
        now = scene.clock()
        dues = [(now + 5.0, 9.0, now + 5.0), (now + 9.0, 5.0, now + 5.0), (NEVER, 2.0, now + 2.0)]
        dues += [(now + 2.0, NEVER, now + 2.0), (NEVER, NEVER, NEVER)]
        due_times = []
        for due_at, due_in, _ in dues:
            await scene.ok(scene.member(claim, then=scene.park(claim, due_at=due_at, due_in=due_in)))
            due_times.append((await scene.ticket(claim.run_id)).due_at)
            await scene.deliver(scene.signal(claim.run_id, scene.fresh("s")))
            [claim] = await scene.claim_as("w1")

        assert due_times == [wanted for _, _, wanted in dues]

    @pytest.mark.req("K15", "K6")
    @checked
    async def test_park_after_reading_the_message_is_ok(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.deliver(scene.signal(claim.run_id))
        refused = await scene.commit(scene.member(claim, then=scene.park(claim)))
        read = scene.member(
            claim, scene.received("s1", 1), consumed=["s1"], then=scene.park(claim, seen=refused.wakes)
        )

        await scene.ok(read)

        assert refused.outcome is Outcome.WOKEN
        assert (await scene.ticket(claim.run_id)).due_at == NEVER
        assert await scene.claimed_ids("w1") == []

    @pytest.mark.req("K15")
    @checked
    async def test_message_after_the_park_makes_it_due(self, scene: Scene) -> None:
        run_id = await scene.suspended()
        scene.clock.advance(7.0)

        await scene.deliver(scene.signal(run_id))

        assert (await scene.ticket(run_id)).due_at == scene.clock()
        [claim] = await scene.claim_as("w1")
        assert [(row.key, row.n) for row in claim.inbox] == [("s1", 1)]

    @pytest.mark.req("K7", "K9")
    @checked
    async def test_waiting_for_a_retry_is_shown_as_running(self, scene: Scene) -> None:
        claim = await scene.begun()

        await scene.ok(scene.member(claim, then=scene.park(claim, Status.RUNNING, due_in=4.0)))

        assert (await scene.run(claim.run_id)).status is Status.RUNNING

    @pytest.mark.req("K7")
    @checked
    async def test_shown_as_running_while_somebody_owns_it(self, scene: Scene) -> None:
        run_id = await scene.start()
        states = [(await scene.run(run_id)).status]
        [claim] = await scene.claim_as(await scene.worker())
        states.append((await scene.run(run_id)).status)
        await scene.ok(scene.member(claim, then=scene.park(claim, due_in=0.0)))
        states.append((await scene.run(run_id)).status)
        await scene.claim_as("w1")
        states.append((await scene.run(run_id)).status)

        assert states == [Status.PENDING, Status.RUNNING, Status.SUSPENDED, Status.RUNNING]

    @checked
    async def test_the_first_start_time_stays(self, scene: Scene) -> None:
        claim = await scene.begun()
        started = []
        for started_at in (0.0, 10.0, 20.0, 0.0):
            then = scene.park(claim, due_in=0.0, started_at=started_at)
            await scene.ok(scene.member(claim, then=then))
            started.append((await scene.run(claim.run_id)).started_at)
            [claim] = await scene.claim_as("w1")

        await scene.ok(scene.member(claim, then=scene.finish(claim, started_at=30.0)))

        assert started == [None, 10.0, 10.0, 10.0]
        assert (await scene.run(claim.run_id)).started_at == 10.0


class FinishRules:
    @pytest.mark.req("K2", "K7")
    @checked
    async def test_finish_leaves_only_run_and_log(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.deliver(scene.signal(claim.run_id))
        opened = [NewTicket(path="remote", queue="gpu", needs="step:x", seq=3)]
        waits = [NewWait(path="ask", kind="decision", name="ask")]
        await scene.ok(scene.member(claim, scene.done("a"), tickets_opened=opened, waits_opened=waits))
        scene.clock.advance(2.0)
        then = scene.finish(claim, seen=1, output=b"7", where_at="end", started_at=5.0)

        await scene.ok(scene.member(claim, scene.completed(), head=3, then=then))

        row = await scene.run(claim.run_id)
        assert (row.status, row.output, row.error, row.where_at) == (Status.COMPLETED, b"7", None, "end")
        assert (row.started_at, row.ended_at) == (5.0, scene.clock())
        assert list(await scene.store.read_tickets(claim.run_id)) == []
        assert await scene.inbox_keys(claim.run_id) == []
        assert await scene.kinds(claim.run_id) == ["accepted", "claimed", "step_completed", "completed"]
        assert await scene.deliver(scene.signal(claim.run_id)) is Delivery.ENDED
        assert await scene.claim_as("w1", queues=("gpu",), needs=("step:x",)) == []

    @pytest.mark.req("K7")
    @checked
    async def test_each_ending_is_kept(self, scene: Scene) -> None:
        for status in (Status.FAILED, Status.CANCELLED, Status.TIMED_OUT):
            claim = await scene.begun()

            await scene.ok(scene.member(claim, then=scene.finish(claim, status, error=b'{"code":"X"}')))

            row = await scene.run(claim.run_id)
            assert (row.status, row.error, row.output) == (status, b'{"code":"X"}', None)

    @pytest.mark.req("K6")
    @checked
    async def test_finish_waits_for_unread_messages(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.deliver(scene.signal(claim.run_id))
        before = await scene.everything()

        refused = await scene.commit(scene.member(claim, scene.completed(), then=scene.finish(claim)))

        assert refused.outcome is Outcome.WOKEN
        assert await scene.everything() == before
        await scene.ok(scene.member(claim, scene.completed(), then=scene.finish(claim, seen=refused.wakes)))

    @pytest.mark.req("K18")
    @checked
    async def test_the_parent_hears_with_the_same_commit(self, scene: Scene) -> None:
        parent = await scene.suspended()
        claim = await scene.begun(parent=parent, parent_path="c")
        message = scene.signal(parent, "child/c/3")

        await scene.ok(scene.member(claim, scene.completed(), then=scene.finish(claim), deliveries=[message]))

        assert await scene.inbox_keys(parent) == ["child/c/3"]
        assert await scene.claimed_ids("w1") == [parent]

    @pytest.mark.req("K18")
    @checked
    async def test_a_parent_that_is_gone_does_not_hold_the_child(self, scene: Scene) -> None:
        parent = await scene.failed()
        claim = await scene.begun()
        messages = [scene.signal(parent, "child/c/3"), scene.signal("nobody", "child/c/3")]

        await scene.ok(scene.member(claim, scene.completed(), then=scene.finish(claim), deliveries=messages))

        assert (await scene.run(claim.run_id)).status is Status.COMPLETED

    @pytest.mark.req("K18")
    @checked
    async def test_child_and_parent_in_one_batch_lose_no_message(self, scene: Scene) -> None:
        """In either order: the parent's park is refused, or its ticket is due again."""
        parent, child = await scene.begun(), await scene.begun()
        message = scene.signal(parent.run_id, "child/c/3")
        batch = [
            scene.member(child, scene.completed(), then=scene.finish(child), deliveries=[message]),
            scene.member(parent, scene.done("a"), then=scene.park(parent)),
        ]

        first, second = await scene.store.commit(batch)

        ticket = await scene.ticket(parent.run_id)
        assert first.outcome is Outcome.OK
        assert await scene.inbox_keys(parent.run_id) == ["child/c/3"]
        if second.outcome is Outcome.OK:
            assert (ticket.lease, ticket.due_at) == ("", scene.clock())
        else:
            assert (second.outcome, ticket.lease) == (Outcome.WOKEN, parent.lease)
