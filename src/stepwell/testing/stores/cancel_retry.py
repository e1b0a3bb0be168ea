"""Rules of cancel and retry."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
import pytest
from msgspec import Raw

from stepwell.domain.commit import ENDING_PRIORITY, CancelOutcome, NewTicket, RetryOutcome
from stepwell.domain.events import Cancelled, Continued, Retried, StepCompleted, read_as, written
from stepwell.domain.ids import RunId
from stepwell.domain.messages import EndNotice
from stepwell.domain.status import Status
from stepwell.testing.stores.scene import NEEDS, QUEUE, Scene, checked


class CancelRules:
    @pytest.mark.req("K13")
    @checked
    async def test_a_run_nobody_had_ends_at_once(self, scene: Scene) -> None:
        run_id = await scene.start(delay=60.0)
        await scene.store.deliver([scene.signal(run_id, "b"), scene.signal(run_id, "a")])
        scene.clock.advance(1.0)

        outcome = await scene.store.cancel(run_id, "no longer needed")

        row = await scene.run(run_id)
        fact = read_as(Cancelled, (await scene.log(run_id))[1])
        assert outcome is CancelOutcome.ENDED
        assert (row.status, row.ended_at, row.output, row.error) == (
            Status.CANCELLED,
            scene.clock(),
            None,
            None,
        )
        assert (fact.reason, fact.unconsumed) == ("no longer needed", ["b", "a"])
        assert list(await scene.store.read_tickets(run_id)) == []
        assert await scene.inbox_keys(run_id) == []

    @pytest.mark.req("K13")
    @checked
    async def test_a_run_of_unknown_version_can_be_cancelled(self, scene: Scene) -> None:
        run_id = await scene.start(needs="order@99")

        assert await scene.store.cancel(run_id, "") is CancelOutcome.ENDED

    @pytest.mark.req("K13", "K18")
    @checked
    async def test_the_parent_hears_of_a_cancelled_child(self, scene: Scene) -> None:
        parent = await scene.suspended()
        child = await scene.start(parent=parent, parent_path="c#1")

        await scene.store.cancel(child, "")

        [message] = await scene.store.read_inbox(parent)
        assert (message.key, message.kind, message.name) == (f"child/{child}/2", "child", "c#1")
        assert msgspec.json.decode(message.payload, type=EndNotice).status == Status.CANCELLED
        assert await scene.claimed_ids("w1") == [parent]

    @pytest.mark.req("K13", "K18")
    @checked
    async def test_cancel_of_a_child_whose_parent_is_gone(self, scene: Scene) -> None:
        child = await scene.start(parent=await scene.failed(), parent_path="c#1")

        assert await scene.store.cancel(child, "") is CancelOutcome.ENDED

    @pytest.mark.req("K13")
    @checked
    async def test_owner_gets_a_message_and_goes_on_owning(self, scene: Scene) -> None:
        claim = await scene.begun()

        outcome = await scene.store.cancel(claim.run_id, "stop")

        [message] = await scene.store.read_inbox(claim.run_id)
        ticket = await scene.ticket(claim.run_id)
        assert outcome is CancelOutcome.REQUESTED
        assert (message.key, message.kind, message.payload) == ("cancel", "cancel", b'"stop"')
        assert (ticket.ending, ticket.lease, ticket.wakes) == (True, claim.lease, 1)
        assert (await scene.run(claim.run_id)).status is Status.RUNNING

    @pytest.mark.req("K13")
    @checked
    async def test_suspended_run_is_due_and_goes_first(self, scene: Scene) -> None:
        waiting, resumed = await scene.suspended(), await scene.suspended()
        urgent = await scene.start(priority=100)
        await scene.deliver(scene.signal(resumed))
        scene.clock.advance(1.0)

        outcome = await scene.store.cancel(waiting, "")

        assert outcome is CancelOutcome.REQUESTED
        assert (await scene.ticket(waiting)).priority == ENDING_PRIORITY
        assert await scene.claimed_ids("w1") == [waiting, resumed, urgent]

    @pytest.mark.req("K13", "K6")
    @checked
    async def test_cancel_twice_is_cancel_once(self, scene: Scene) -> None:
        started, fresh = await scene.suspended(), await scene.start()
        await scene.store.cancel(started, "")
        await scene.store.cancel(fresh, "")
        before = await scene.everything()

        again = [await scene.store.cancel(run_id, "") for run_id in (started, fresh)]

        assert again == [CancelOutcome.ALREADY, CancelOutcome.ALREADY]
        assert await scene.everything() == before

    @pytest.mark.req("K13", "K7")
    @checked
    async def test_terminal_is_final_and_unknown_is_unknown(self, scene: Scene) -> None:
        ended = await scene.failed()
        before = await scene.everything()

        assert await scene.store.cancel(ended, "") is CancelOutcome.ALREADY
        assert await scene.store.cancel(RunId("nobody"), "") is CancelOutcome.UNKNOWN
        assert await scene.everything() == before

    @pytest.mark.req("K13")
    @checked
    async def test_cancel_against_claim_has_one_winner(self, scene: Scene) -> None:
        await scene.worker()
        runs = [await scene.start() for _ in range(8)]

        async with asyncio.TaskGroup() as group:
            claiming = group.create_task(scene.claims("w1"))
            cancels = [group.create_task(scene.store.cancel(run_id, "")) for run_id in runs]

        taken = {claim.run_id for claim in claiming.result().claims}
        for run_id, cancel in zip(runs, cancels, strict=True):
            wanted = CancelOutcome.REQUESTED if run_id in taken else CancelOutcome.ENDED
            assert cancel.result() is wanted


class RetryRules:
    @pytest.mark.req("K39", "K11")
    @checked
    async def test_a_skipped_step_gets_its_result_with_the_retry(self, scene: Scene) -> None:
        run_id = await scene.failed()
        result = written(StepCompleted(result=Raw(b"7"), skipped=True), "b", 2)

        assert await scene.store.retry(run_id, skipped=result, by="ann") is RetryOutcome.RETRIED
        assert await scene.store.retry(run_id, skipped=result) is RetryOutcome.NOT_FAILED

        [claim] = await scene.claim_as(await scene.worker())
        *_, retried, skipped = claim.log
        assert (retried.kind, read_as(Retried, retried).path, read_as(Retried, retried).by) == (
            "retried",
            "b",
            "ann",
        )
        assert skipped == result.row(claim.head, retried.at)
        await scene.ok(scene.member(claim, scene.claimed(claim)))

    @pytest.mark.req("K39")
    @checked
    async def test_a_run_whose_log_grew_meanwhile_is_not_continued(self, scene: Scene) -> None:
        run_id = await scene.failed()
        [last] = await scene.store.read_log_end(run_id)
        result = written(StepCompleted(result=Raw(b"7"), skipped=True), "b", 2)
        tried = partial(scene.store.retry, run_id, skipped=result)

        assert await tried(head=last.seq - 1) is RetryOutcome.NOT_FAILED
        assert await scene.store.read_log_end(run_id) == [last]
        assert await tried(head=last.seq) is RetryOutcome.RETRIED

    @pytest.mark.req("K11")
    @checked
    async def test_retry_gives_a_failed_run_a_new_ticket(self, scene: Scene) -> None:
        run_id = await scene.failed(priority=4)
        scene.clock.advance(9.0)

        outcome = await scene.store.retry(run_id)

        row, ticket = await scene.run(run_id), await scene.ticket(run_id)
        assert outcome is RetryOutcome.RETRIED
        assert (await scene.kinds(run_id))[-1] == "retried"
        assert (row.status, row.output, row.error, row.ended_at) == (Status.RUNNING, None, None, None)
        assert (ticket.head, ticket.wakes, ticket.losses) == (4, 0, 0)
        assert (ticket.started, ticket.ending, ticket.due_at) == (True, False, scene.clock())
        assert (ticket.queue, ticket.needs, ticket.priority) == (QUEUE, NEEDS, 4)
        [claim] = await scene.claim_as("w1")
        assert [event.seq for event in claim.log] == [1, 2, 3, 4]

    @pytest.mark.req("K11", "G15")
    @checked
    async def test_retry_says_what_the_next_worker_must_have(self, scene: Scene) -> None:
        run_id = await scene.failed()

        await scene.store.retry(run_id, needs="graph/1")

        assert (await scene.ticket(run_id)).needs == "graph/1"
        assert await scene.claim_as("w1") == []
        [claim] = await scene.claim_as("w1", needs=("graph/1",))
        assert claim.run_id == run_id

    @pytest.mark.req("K11")
    @checked
    async def test_second_retry_comes_too_late(self, scene: Scene) -> None:
        run_id = await scene.failed()

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(scene.store.retry(run_id)) for _ in range(4)]

        assert sorted(task.result() for task in tasks) == [RetryOutcome.NOT_FAILED] * 3 + [
            RetryOutcome.RETRIED
        ]
        assert (await scene.kinds(run_id)).count("retried") == 1

    @pytest.mark.req("K11", "K7")
    @checked
    async def test_a_run_that_timed_out_is_retried_too(self, scene: Scene) -> None:
        claim = await scene.begun()
        await scene.ok(scene.member(claim, scene.done("a"), then=scene.finish(claim, Status.TIMED_OUT)))

        assert await scene.store.retry(claim.run_id) is RetryOutcome.RETRIED

        assert (await scene.run(claim.run_id)).status is Status.RUNNING
        [again] = await scene.claim_as("w1")
        assert again.run_id == claim.run_id

    @pytest.mark.req("K11", "K7")
    @checked
    async def test_only_runs_that_ended_badly_are_retried(self, scene: Scene) -> None:
        cancelled = await scene.start()
        await scene.store.cancel(cancelled, "")
        claim = await scene.begun()
        await scene.ok(scene.member(claim, scene.completed(), then=scene.finish(claim)))
        runs = [await scene.suspended(), await scene.start(), cancelled, claim.run_id]

        outcomes = [await scene.store.retry(run_id) for run_id in runs]

        assert outcomes == [RetryOutcome.NOT_FAILED] * 4
        assert await scene.store.retry(RunId("nobody")) is RetryOutcome.UNKNOWN

    @pytest.mark.req("K11", "F10")
    @checked
    async def test_retry_replays_from_the_last_continuation(self, scene: Scene) -> None:
        claim = await scene.begun()
        again = written(Continued(generation=1))
        await scene.ok(scene.member(claim, scene.done("a"), again, base=4))
        await scene.ok(scene.member(claim, scene.done("b"), head=4, then=scene.finish(claim, Status.FAILED)))
        await scene.store.retry(claim.run_id)

        [claim] = await scene.claim_as("w1")

        assert [(row.seq, row.kind) for row in claim.log] == [
            (1, "accepted"),
            (4, "continued"),
            (5, "step_completed"),
            (6, "retried"),
        ]

    @pytest.mark.req("K11")
    @checked
    async def test_messages_and_remote_steps_from_before_the_failure_are_gone(self, scene: Scene) -> None:
        claim = await scene.begun()
        opened = [NewTicket(path="remote", queue="gpu", needs="step:x", seq=3)]
        await scene.ok(scene.member(claim, scene.done("a"), tickets_opened=opened))
        await scene.deliver(scene.signal(claim.run_id))
        failing = scene.finish(claim, Status.FAILED, seen=1)
        await scene.ok(scene.member(claim, scene.done("b"), head=3, then=failing))

        await scene.store.retry(claim.run_id)

        [again] = await scene.claim_as("w1")
        assert (again.wakes, list(again.inbox)) == (0, [])
        assert [ticket.path for ticket in await scene.store.read_tickets(claim.run_id)] == [""]
