"""Rules of whole runs: copied out, restored, removed when they are old."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain.commit import NewTicket, NewWait, PublishedEvent, RetryOutcome, RunFilter
from stepwell.domain.events import (
    CompensationCompleted,
    CompensationStarted,
    Continued,
    StepScheduled,
    written,
)
from stepwell.domain.fork.run_copy import Removal
from stepwell.domain.ids import RunId
from stepwell.domain.lanes import Lane
from stepwell.domain.status import Status
from stepwell.domain.triggers.run_webhook import DELIVERY
from stepwell.store.base import PURGE_PAGE
from stepwell.testing.stores.scene import Scene, checked

DAY = 86_400.0
LANE = Lane("default", "order", "default", workflow_limit=10).text


async def a_busy_run(scene: Scene) -> RunId:
    """Suspended, with a message, a wait, a remote step, and a log that replays from its middle."""
    claim = await scene.begun(priority=3, tags=b'{"a":"b"}', hash="h", lane=LANE, parent_path="")
    scheduled = written(StepScheduled(step="x", queue="gpu", args=Raw(b"[1]")), "1/x#1", 1)
    await scene.ok(scene.member(claim, scene.done("a"), written(Continued(generation=1)), base=4))
    await scene.ok(
        scene.member(
            claim,
            scheduled,
            head=4,
            tickets_opened=[NewTicket(path="1/x#1", queue="gpu", needs="step:x", seq=5)],
            waits_opened=[NewWait(path="1/ask#1", kind="decision", name="ask")],
            then=scene.park(claim, due_in=60.0, where_at="waiting"),
        )
    )
    await scene.deliver(scene.signal(claim.run_id, "s1", b'"hello"'))
    return claim.run_id


async def a_tree(scene: Scene) -> list[RunId]:
    """A run with two children, one of which has a child; all of them have failed."""
    root = await scene.failed()
    left = await scene.failed(parent=root, parent_path="c#1", root=root)
    right = await scene.failed(parent=root, parent_path="c#2", root=root)
    below = await scene.failed(parent=left, parent_path="c#1", root=root)
    return [root, left, right, below]


async def present(scene: Scene) -> set[str]:
    return {row.id for row in await scene.store.list_runs(RunFilter(limit=10_000))}


async def purge_all(scene: Scene, older_than: float) -> int:
    removed, after = 0, ""
    while True:
        purged = await scene.store.purge(older_than, after=after)
        removed += purged.runs
        if purged.after is None:
            return removed
        assert purged.after > after
        after = purged.after


class CopyRules:
    @pytest.mark.req("K29")
    @checked
    async def test_a_copy_brings_everything_back(self, scene: Scene) -> None:
        run_id = await a_busy_run(scene)
        [copy] = await scene.store.read_tree(run_id)

        [started] = await scene.store.restore([replace(copy, id=RunId("r9000"), key="another")])

        [again] = await scene.store.read_tree(RunId("r9000"))
        assert started.created
        assert replace(again, id=run_id, key=copy.key) == copy
        assert (copy.priority, copy.hash, copy.lane, copy.where_at) == (3, "h", LANE, "waiting")
        assert [t.path for t in copy.tickets] == ["", "1/x#1"]
        assert [row.key for row in copy.inbox] == ["s1"]
        assert [wait.path for wait in copy.waits] == ["1/ask#1"]

    @pytest.mark.req("K29")
    @checked
    async def test_what_was_brought_back_is_claimed_as_the_original_would_be(self, scene: Scene) -> None:
        run_id = await a_busy_run(scene)
        [copy] = await scene.store.read_tree(run_id)
        await scene.store.restore([replace(copy, id=RunId("r9000"), key="another")])

        claims = {claim.run_id: claim for claim in await scene.claim_as("w1")}

        one, other = claims[run_id], claims[RunId("r9000")]
        assert list(one.log) == list(other.log)
        assert list(one.inbox) == list(other.inbox)
        assert (one.head, one.wakes, one.losses) == (other.head, other.wakes, other.losses)
        assert [row.seq for row in other.log] == [1, 4, 5]

    @pytest.mark.req("K29")
    @checked
    async def test_a_copy_of_an_owned_run_belongs_to_nobody(self, scene: Scene) -> None:
        claim = await scene.begun()
        [copy] = await scene.store.read_tree(claim.run_id)

        await scene.store.restore([replace(copy, id=RunId("r9000"), key="another")])

        assert await scene.claimed_ids("w1") == ["r9000"]
        assert (await scene.ticket(claim.run_id)).lease == claim.lease

    @pytest.mark.req("K29")
    @checked
    async def test_a_tree_comes_with_all_below_it_parents_first(self, scene: Scene) -> None:
        tree = await a_tree(scene)
        await scene.start()

        copies = await scene.store.read_tree(tree[0])
        alone = await scene.store.read_tree(tree[0], children=False)

        assert [copy.id for copy in copies] == tree
        assert [copy.id for copy in alone] == tree[:1]
        assert list(await scene.store.read_tree(RunId("nobody"))) == []

    @pytest.mark.req("K29", "K6")
    @checked
    async def test_an_id_or_key_that_is_taken_refuses_the_whole(self, scene: Scene) -> None:
        run_id = await scene.failed()
        [copy] = await scene.store.read_tree(run_id)
        fresh = replace(copy, id=RunId("r9000"), key="fresh")
        before = await scene.everything()

        same = await scene.store.restore([fresh, copy])
        other = await scene.store.restore([replace(copy, key="other", digest="other")])
        key = await scene.store.restore([replace(fresh, key=copy.key)])

        assert [(s.run_id, s.created, s.conflict) for s in same] == [
            ("r9000", False, False),
            (run_id, False, False),
        ]
        assert [(s.run_id, s.created, s.conflict) for s in other] == [(run_id, False, True)]
        assert [(s.run_id, s.created, s.conflict) for s in key] == [(run_id, False, False)]
        assert await scene.everything() == before

    @pytest.mark.req("K29", "K6")
    @checked
    async def test_runs_without_a_key_are_in_each_others_way_by_id_only(self, scene: Scene) -> None:
        run_id = await scene.failed(key="")
        [copy] = await scene.store.read_tree(run_id)
        fresh = replace(copy, id=RunId("r9000"))

        restored = await scene.store.restore([fresh])
        again = await scene.store.restore([fresh, replace(fresh, id=RunId("r9001"))])

        assert [(s.run_id, s.created) for s in restored] == [("r9000", True)]
        assert [(s.run_id, s.created, s.conflict) for s in again] == [
            ("r9000", False, False),
            ("r9001", False, False),
        ]
        assert await scene.store.read_run(RunId("r9001")) is None

    @pytest.mark.req("K11", "K27")
    @checked
    async def test_a_run_that_was_compensated_is_not_retried(self, scene: Scene) -> None:
        claim = await scene.begun()
        undone = [
            written(CompensationStarted(status="failed", steps=["a"])),
            written(CompensationCompleted()),
        ]
        await scene.ok(scene.member(claim, *undone, then=scene.finish(claim, Status.FAILED)))
        before = await scene.everything()

        outcome = await scene.store.retry(claim.run_id)

        assert outcome is RetryOutcome.COMPENSATED
        assert await scene.everything() == before

    @pytest.mark.req("K11", "K27")
    @checked
    async def test_a_run_that_ended_while_it_was_compensated_is_sent_on(self, scene: Scene) -> None:
        claim = await scene.begun()
        undoing = written(CompensationStarted(status="failed", steps=["a"]))
        await scene.ok(scene.member(claim, undoing, then=scene.finish(claim, Status.FAILED)))

        assert await scene.store.retry(claim.run_id) is RetryOutcome.RETRIED
        assert (await scene.run(claim.run_id)).status == "running"


class RemoveRules:
    @pytest.mark.req("K29")
    @checked
    async def test_a_tree_that_has_ended_is_removed_without_a_trace(self, scene: Scene) -> None:
        tree, other = await a_tree(scene), await scene.failed()

        removal = await scene.store.remove(tree[0])

        assert removal is Removal.REMOVED
        assert await present(scene) == {other}
        assert [list(await scene.log(run_id)) for run_id in tree] == [[], [], [], []]
        assert await scene.store.remove(tree[0]) is Removal.UNKNOWN

    @pytest.mark.req("K29")
    @checked
    async def test_a_live_run_stays_and_so_does_what_is_above_it(self, scene: Scene) -> None:
        tree, alone, fresh = await a_tree(scene), await scene.suspended(), await scene.start()
        await scene.store.retry(tree[3])
        before = await scene.everything()

        removals = [await scene.store.remove(run_id) for run_id in (tree[0], alone, fresh)]

        assert removals == [Removal.LIVE] * 3
        assert await scene.everything() == before

    @pytest.mark.req("K29")
    @checked
    async def test_a_child_goes_with_its_tree_only(self, scene: Scene) -> None:
        tree = await a_tree(scene)

        assert await scene.store.remove(tree[3]) is Removal.CHILD
        assert await present(scene) == set(tree)

    @pytest.mark.req("K29", "K21")
    @checked
    async def test_the_key_of_a_removed_run_is_free(self, scene: Scene) -> None:
        await scene.store.remove(await scene.failed(key="order-1"))

        assert await scene.start(key="order-1", digest="other")


class PurgeRules:
    @pytest.mark.req("K29")
    @checked
    async def test_old_trees_go_young_and_live_ones_stay(self, scene: Scene) -> None:
        old, sleeping, revived = await a_tree(scene), await scene.suspended(), await a_tree(scene)
        scene.clock.advance(DAY)
        late_child = await a_tree(scene)
        scene.clock.advance(DAY)
        young = await scene.failed()
        await scene.store.retry(revived[3])
        before = {run_id: list(await scene.log(run_id)) for run_id in (*revived, *late_child)}

        removed = await purge_all(scene, 1.5 * DAY)

        assert removed == len(old)
        assert await present(scene) == {sleeping, young, *revived, *late_child}
        assert {run_id: list(await scene.log(run_id)) for run_id in before} == before

    @pytest.mark.req("K29")
    @checked
    async def test_a_tree_is_as_young_as_its_youngest_run(self, scene: Scene) -> None:
        tree = await a_tree(scene)
        scene.clock.advance(DAY)
        child = await scene.failed(parent=tree[0], parent_path="c#3", root=tree[0])

        assert await purge_all(scene, DAY / 2) == 0
        scene.clock.advance(DAY)
        assert await purge_all(scene, DAY / 2) == 5
        assert child not in await present(scene)

    @pytest.mark.req("K29")
    @checked
    async def test_the_walk_passes_pages_of_runs_that_stay(self, scene: Scene) -> None:
        await scene.store.start([scene.new_run() for _ in range(PURGE_PAGE + 7)])
        old = await scene.failed(queue="other")
        scene.clock.advance(DAY)
        await scene.store.start([scene.new_run() for _ in range(PURGE_PAGE + 7)])

        first = await scene.store.purge(DAY / 2)
        second = await scene.store.purge(DAY / 2, after=str(first.after))

        assert (first.runs, second.runs) == (0, 1)
        assert old not in await present(scene)
        assert first.after is not None
        third = await scene.store.purge(DAY / 2, after=str(second.after)) if second.after else None
        assert third is None or third.after is None

    @pytest.mark.req("K29", "K11")
    @checked
    async def test_retry_and_purge_at_once_leave_a_whole_run_or_none(self, scene: Scene) -> None:
        runs = [await scene.failed() for _ in range(8)]
        scene.clock.advance(DAY)

        async with asyncio.TaskGroup() as group:
            retries = [group.create_task(scene.store.retry(run_id)) for run_id in runs]
            for _ in range(2):
                group.create_task(scene.store.purge(1.0))

        left = await present(scene)
        for run_id, retry in zip(runs, retries, strict=True):
            assert (run_id in left) == (retry.result() is RetryOutcome.RETRIED)
            log: Sequence[object] = await scene.log(run_id)
            assert bool(log) == (run_id in left)

    @pytest.mark.req("K29", "K15")
    @checked
    async def test_old_events_go_young_ones_and_those_to_be_told_stay(self, scene: Scene) -> None:
        for id in ("a1", "a2", "b1"):
            await scene.store.emit(PublishedEvent(id, id[0], "k", b"1", 0.0))
        await scene.worker()
        for claim in await scene.claim_events("w1"):
            await scene.store.fan_out(claim)
        await scene.store.emit(PublishedEvent("a3", "a", "k", b"1", 0.0))  # not fanned out yet
        scene.clock.advance(2 * DAY)
        await scene.store.emit(PublishedEvent("a4", "a", "k", b"1", 0.0))

        assert await scene.store.purge_events(3 * DAY) == 0
        assert await scene.store.purge_events(1.0) == 3
        assert await scene.store.purge_events(1.0) == 0

        assert [event.id for event in await scene.store.published("a", "", since=0.0)] == ["a3", "a4"]
        assert not await scene.store.published("b", "", since=0.0)

    @pytest.mark.req("K35", "K29")
    @checked
    async def test_events_behind_a_cursor_are_kept_while_its_run_lives(self, scene: Scene) -> None:
        """A cursor keeps events of its key from its position on; one for any key keeps all of the name."""
        times: dict[str, float] = {}
        for name, key in (("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"), ("a", "x"), ("b", "y")):
            id = f"{name}{key}{len(times)}"
            await scene.store.emit(PublishedEvent(id, name, key, b"1", 0.0))
            times[id] = scene.clock()
            scene.clock.advance(10.0)
        await scene.worker()
        for event in await scene.claim_events("w1"):
            await scene.store.fan_out(event)
        claim = await scene.begun()
        waits = [
            NewWait(path="w#1", kind="event", name="a", key="x", since=times["ax4"]),
            NewWait(path="@b", kind="cursor", name="b", since=times["by3"]),
        ]
        await scene.ok(scene.member(claim, scene.begins("w"), waits_opened=waits))
        scene.clock.advance(2 * DAY)

        assert await scene.store.purge_events(1.0) == 3
        held = [e.id for name in "ab" for e in await scene.store.published(name, "", since=0.0)]
        await scene.ok(scene.member(claim, scene.completed(), head=3, then=scene.finish(claim)))

        assert held == ["ax4", "by3", "by5"]
        assert await scene.store.purge_events(1.0) == 3

    @pytest.mark.req("K29", "T2")
    @checked
    async def test_a_delivery_to_a_run_is_kept_until_the_run_ends(self, scene: Scene) -> None:
        """It may come long before the run waits for it."""
        claim = await scene.begun()
        other = await scene.begun(workflow="other")
        await scene.ok(scene.member(other, scene.completed(), head=2, then=scene.finish(other)))
        keys = {"early": f"{claim.run_id}.nonce.code", "ended": f"{other.run_id}.nonce.code", "none": "x"}
        for id, key in keys.items():
            await scene.store.emit(PublishedEvent(id, DELIVERY, key, b"1", 0.0))
        for event in await scene.claim_events("w1"):
            await scene.store.fan_out(event)
        scene.clock.advance(2 * DAY)

        assert await scene.store.purge_events(1.0) == 2
        kept = await scene.store.published(DELIVERY, keys["early"], since=0.0)
        await scene.ok(scene.member(claim, scene.completed(), head=2, then=scene.finish(claim)))

        assert [event.id for event in kept] == ["early"]
        assert await scene.store.purge_events(1.0) == 1

    @pytest.mark.req("K29", "K15")
    @checked
    async def test_events_are_kept_for_a_day_whatever_is_asked(self, scene: Scene) -> None:
        await scene.store.emit(PublishedEvent("e1", "news", "", b"1", 0.0))
        await scene.worker()
        for claim in await scene.claim_events("w1"):
            await scene.store.fan_out(claim)
        scene.clock.advance(DAY - 1.0)

        assert await scene.store.purge_events(0.0) == 0
