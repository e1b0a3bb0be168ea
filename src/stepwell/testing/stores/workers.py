"""Rules of workers: how long a lease lasts, and what happens to the tickets of dead workers."""

from __future__ import annotations

import pytest

from stepwell.domain.commit import Beat, DrainRequest, Outcome, Owned, Reaped
from stepwell.domain.ids import WorkerId
from stepwell.domain.queues import QueueUse
from stepwell.domain.status import Status
from stepwell.testing.stores.scene import LEASE_SECONDS, NEEDS, QUEUE, Scene, checked

DAY = 86400.0


class WorkerRules:
    @checked
    async def test_registered_workers_are_listed(self, scene: Scene) -> None:
        await scene.worker("w1")
        scene.clock.advance(1.0)
        await scene.worker("w2", lease_seconds=30.0)

        rows = sorted(await scene.store.list_workers(), key=lambda row: row.id)

        assert [(row.id, row.name, row.lease_until) for row in rows] == [
            ("w1", "host:w1", scene.clock() + LEASE_SECONDS - 1.0),
            ("w2", "host:w2", scene.clock() + 30.0),
        ]
        assert (tuple(rows[0].queues), tuple(rows[0].needs)) == ((QUEUE,), (NEEDS,))

    @checked
    async def test_queues_are_counted_by_what_their_tickets_wait_for(self, scene: Scene) -> None:
        now = scene.clock()
        await scene.owned()
        scene.clock.advance(5.0)
        await scene.start()
        await scene.start(delay=DAY)
        await scene.start(queue="gpu")
        await scene.start(queue="gpu", workspace="other")

        everything = await scene.store.read_queues("", now=scene.clock())
        own = await scene.store.read_queues("default", now=scene.clock())

        assert everything == [QueueUse(QUEUE, 1, 1, 1, now + 5.0), QueueUse("gpu", 2, 0, 0, now + 5.0)]
        assert own == [QueueUse(QUEUE, 1, 1, 1, now + 5.0), QueueUse("gpu", 1, 0, 0, now + 5.0)]
        assert own[0].age(scene.clock() + 2.0) == 2.0

    @checked
    async def test_the_schema_is_the_one_that_this_process_knows(self, scene: Scene) -> None:
        schema = await scene.store.read_schema()

        assert schema.stored == schema.known >= 1

    @checked
    async def test_registering_again_renews(self, scene: Scene) -> None:
        await scene.worker("w1")
        scene.clock.advance(9.0)
        await scene.worker("w1")

        [row] = await scene.store.list_workers()

        assert row.lease_until == scene.clock() + LEASE_SECONDS

    @pytest.mark.req("K3", "K4")
    @checked
    async def test_heartbeat_renews_and_tells_what_is_owned(self, scene: Scene) -> None:
        first, second = await scene.begun(), await scene.begun()
        await scene.start()
        await scene.deliver(scene.signal(second.run_id))
        scene.clock.advance(5.0)

        owned = await scene.beaten("w1")

        [row] = await scene.store.list_workers()
        assert sorted(owned or ()) == [Owned(first.run_id, "", 0), Owned(second.run_id, "", 1)]
        assert row.lease_until == scene.clock() + LEASE_SECONDS

    @pytest.mark.req("K4")
    @checked
    async def test_a_late_heartbeat_counts_while_nobody_reaped(self, scene: Scene) -> None:
        claim = await scene.begun()
        scene.clock.advance(10 * LEASE_SECONDS)

        assert await scene.beaten("w1") == [Owned(claim.run_id, "", 0)]
        await scene.ok(scene.member(claim, scene.done("a")))

    @pytest.mark.req("K34")
    @checked
    async def test_deregister_frees_at_once_and_is_no_loss(self, scene: Scene) -> None:
        claim = await scene.begun()

        await scene.store.deregister(WorkerId("w1"))

        ticket = await scene.ticket(claim.run_id)
        assert (ticket.owner, ticket.lease, ticket.losses) == ("", "", 0)
        assert list(await scene.store.list_workers()) == []
        assert (await scene.commit(scene.member(claim, scene.done("a")))).outcome is Outcome.LOST
        [heir] = await scene.claim_as(await scene.worker("w2"))
        assert (heir.run_id, heir.losses, heir.head) == (claim.run_id, 0, 2)

    @checked
    async def test_unknown_workers_are_no_error(self, scene: Scene) -> None:
        await scene.store.deregister(WorkerId("nobody"))

        assert await scene.beaten("nobody") is None


class ReapRules:
    @pytest.mark.req("K4", "K3")
    @checked
    async def test_tickets_of_a_dead_worker_are_free(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.worker("w2")
        await scene.beat("w2", LEASE_SECONDS + 1.0)

        reaped = await scene.store.reap()

        ticket = await scene.ticket(claim.run_id)
        assert reaped == Reaped(1, 1, False)
        assert (ticket.owner, ticket.lease, ticket.losses) == ("", "", 1)
        assert ticket.due_at <= scene.clock()
        assert [worker.id for worker in await scene.store.list_workers()] == ["w2"]
        assert await scene.beaten("w1") is None
        assert (await scene.commit(scene.member(claim, scene.done("a")))).outcome is Outcome.LOST
        [heir] = await scene.claim_as("w2")
        assert (heir.losses, heir.lost_lease, heir.head) == (1, claim.lease, 2)

    @pytest.mark.req("K41", "K34")
    @checked
    async def test_tickets_of_a_worker_that_died_while_it_was_leaving_are_no_loss(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.worker("w1", leaving=True)
        await scene.worker("w2")
        await scene.beat("w2", LEASE_SECONDS + 1.0)

        reaped = await scene.store.reap()

        ticket = await scene.ticket(claim.run_id)
        assert reaped == Reaped(1, 1, False)
        assert (ticket.owner, ticket.lease, ticket.losses) == ("", "", 0)
        assert (await scene.commit(scene.member(claim, scene.done("a")))).outcome is Outcome.LOST
        [heir] = await scene.claim_as("w2")
        assert (heir.losses, heir.lost_lease, heir.head) == (0, claim.lease, 2)

    @pytest.mark.req("K4")
    @checked
    async def test_live_workers_keep_what_they_own(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.beat("w1", 3 * LEASE_SECONDS)
        before = await scene.everything()

        assert await scene.store.reap() == Reaped(0, 0, False)
        assert await scene.everything() == before
        await scene.ok(scene.member(claim, scene.done("a")))

    @pytest.mark.req("K4", "R7")
    @checked
    async def test_nobody_dies_before_the_fleet_had_contact_for_one_lease(self, scene: Scene) -> None:
        claim = await scene.begun()
        scene.clock.advance(10 * LEASE_SECONDS)
        await scene.worker("w2")
        first = await scene.store.reap()
        await scene.beat("w2", LEASE_SECONDS - 1.0)
        early = await scene.store.reap()
        await scene.beat("w2", 2.0)

        late = await scene.store.reap()

        assert (first.workers, early.workers, late.workers) == (0, 0, 1)
        assert (await scene.ticket(claim.run_id)).losses == 1

    @pytest.mark.req("K4", "R6")
    @checked
    async def test_an_outage_of_the_store_kills_nobody(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.worker("w2")
        for _ in range(8):
            await scene.beat("w2", 5.0)
            await scene.beat("w1", 0.0)
        scene.clock.advance(10 * LEASE_SECONDS)

        at_once = await scene.store.reap()
        await scene.beaten("w2")
        then = await scene.store.reap()
        await scene.beaten("w1")
        await scene.beat("w2", LEASE_SECONDS - 2.0)

        assert (at_once.workers, then.workers, (await scene.store.reap()).workers) == (0, 0, 0)
        assert (await scene.ticket(claim.run_id)).lease == claim.lease

    @pytest.mark.req("K4")
    @checked
    async def test_reaping_again_finds_nothing(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.lose("w1")
        [heir] = await scene.claim_as("w9")

        assert heir.run_id == claim.run_id
        assert await scene.store.reap() == Reaped(0, 0, False)
        assert (await scene.run(claim.run_id)).status is Status.RUNNING

    @pytest.mark.req("K33")
    @checked
    async def test_losses_add_up_and_the_first_lost_lease_is_told(self, scene: Scene) -> None:
        run_id = await scene.start()
        [first] = await scene.claim_as(await scene.worker("w1"))
        await scene.lose("w1")
        [second] = await scene.claim_as(await scene.worker("w2"))

        await scene.worker("w9")
        await scene.beat("w9", 2 * LEASE_SECONDS)
        reaped = await scene.store.reap()

        [third] = await scene.claim_as("w9", solo=True)
        assert (second.losses, second.lost_lease) == (1, first.lease)
        assert reaped == Reaped(1, 1, True)
        assert (third.run_id, third.losses, third.lost_lease) == (run_id, 2, first.lease)
        assert (await scene.store.reap()).solo_due is False

    @pytest.mark.slow
    @pytest.mark.req("K4")
    @checked
    async def test_more_tickets_than_one_chunk_are_all_freed(self, scene: Scene) -> None:
        await scene.store.start([scene.new_run() for _ in range(501)])
        await scene.store.start([scene.new_run() for _ in range(100)])
        assert len(await scene.claim_as(await scene.worker(), limit=601)) == 601
        await scene.worker("w2")
        await scene.beat("w2", LEASE_SECONDS + 1.0)

        reaped = await scene.store.reap()

        assert (reaped.workers, reaped.tickets) == (1, 601)
        assert len(await scene.claim_as("w2", limit=700)) == 601

    @checked
    async def test_a_sleeping_ticket_of_nobody_is_left_alone(self, scene: Scene) -> None:
        run_id = await scene.suspended()
        await scene.lose("w1")

        ticket = await scene.ticket(run_id)

        assert (ticket.losses, ticket.lease) == (0, "")
        assert await scene.claimed_ids("w9") == []


class ClockRules:
    @pytest.mark.req("K1", "R7")
    @checked
    async def test_events_never_go_back_in_time(self, scene: Scene) -> None:
        claim = await scene.begun()
        jumped = scene.clock()
        scene.clock.set_back(DAY)
        committed = await scene.ok(scene.member(claim, scene.done("a")))
        scene.clock.advance(1.0)
        await scene.ok(scene.member(claim, scene.done("b"), head=3))

        times = [row.at for row in await scene.log(claim.run_id)]

        assert times == sorted(times)
        assert (committed.at, times[-1]) == (jumped, jumped)

    @pytest.mark.req("K16", "R7")
    @checked
    async def test_timers_use_the_wall_clock(self, scene: Scene) -> None:
        """After a jump forward and back the events' time stands still; a ten-second sleep must not."""
        claim = await scene.begun()
        scene.clock.set_back(DAY)

        await scene.ok(scene.member(claim, scene.done("a"), then=scene.park(claim, due_in=10.0)))

        assert (await scene.ticket(claim.run_id)).due_at == scene.clock() + 10.0
        scene.clock.advance(10.0)
        assert await scene.claimed_ids("w1") == [claim.run_id]

    @pytest.mark.req("R7")
    @checked
    async def test_retry_keeps_the_time_of_the_log(self, scene: Scene) -> None:
        run_id = await scene.failed()
        scene.clock.set_back(DAY)

        await scene.store.retry(run_id)

        times = [row.at for row in await scene.log(run_id)]
        assert times == sorted(times)
        assert await scene.claimed_ids("w1") == [run_id]

    @pytest.mark.req("R7", "K4")
    @checked
    async def test_a_clock_set_back_does_not_keep_the_dead_alive(self, scene: Scene) -> None:
        claim = await scene.begun()
        scene.clock.set_back(DAY)
        await scene.worker("w2")
        first = await scene.store.reap()
        await scene.beat("w2", LEASE_SECONDS + 1.0)

        second = await scene.store.reap()

        assert (first.workers, second.workers) == (0, 1)
        assert (await scene.ticket(claim.run_id)).lease == ""


class DrainRules:
    @pytest.mark.req("K39")
    @checked
    async def test_a_worker_hears_with_its_heartbeat_that_it_is_to_stop(self, scene: Scene) -> None:
        claim = await scene.begun()
        other = await scene.worker("w2")

        assert await scene.store.drain(WorkerId("w1"), DrainRequest(by="ann", reason="old host")) is True

        beats = [await scene.store.heartbeat(worker) for worker in (WorkerId("w1"), other)]
        assert beats == [Beat([Owned(claim.run_id, "", 0)], draining=True), Beat([])]
        rows = {row.id: row for row in await scene.store.list_workers()}
        assert rows[WorkerId("w1")].draining == DrainRequest(by="ann", reason="old host", at=scene.clock())
        assert rows[other].draining is None

    @pytest.mark.req("K39", "K6")
    @checked
    async def test_asking_twice_is_asking_once(self, scene: Scene) -> None:
        worker = await scene.worker()
        await scene.store.drain(worker, DrainRequest(by="ann"))
        scene.clock.advance(1.0)

        assert await scene.store.drain(worker, DrainRequest(by="bob")) is False
        assert await scene.store.drain(WorkerId("nobody"), DrainRequest()) is None
        [row] = await scene.store.list_workers()
        assert row.draining == DrainRequest(by="ann", at=scene.clock() - 1.0)

    @pytest.mark.req("K39")
    @checked
    async def test_it_lasts_until_the_worker_is_gone(self, scene: Scene) -> None:
        worker = await scene.worker()
        await scene.store.drain(worker, DrainRequest())
        await scene.worker(leaving=True)

        [row] = await scene.store.list_workers()
        assert (row.leaving, row.draining is None) == (True, False)
        await scene.store.deregister(worker)
        await scene.worker()
        assert await scene.store.heartbeat(worker) == Beat([])
