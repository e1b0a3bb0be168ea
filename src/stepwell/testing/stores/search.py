"""Rules of search: lists of runs and open waits by any filter, and counts that agree with them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec import Raw

from stepwell.domain.commit import DecidedApproval, NewWait, RunFilter
from stepwell.domain.events import Received, WaitEnded, WaitOpened, written
from stepwell.domain.ids import RunId
from stepwell.domain.search import (
    BucketFilter,
    DecidedFilter,
    DecidedRow,
    RunCount,
    WaitFilter,
    WaitRow,
    decided_place,
    place_of,
    wait_place,
)
from stepwell.domain.status import Status
from stepwell.testing.stores.scene import QUEUE, Scene, checked


async def found(scene: Scene, **filter: Any) -> list[str]:
    return [row.id for row in await scene.store.list_runs(RunFilter(**filter))]


async def paged(scene: Scene, size: int, **filter: Any) -> list[str]:
    """The same list, read in pages."""
    wanted, ids = RunFilter(limit=size, **filter), list[str]()
    while page := await scene.store.list_runs(wanted):
        assert len(page) <= size
        ids += [row.id for row in page]
        wanted = RunFilter(limit=size, **filter, before=place_of(page[-1], wanted))
    return ids


async def counted(scene: Scene, workspace: str = "default") -> dict[str, int]:
    """Counts by status, which must agree with the list of all runs."""
    counts = await scene.store.count_runs(workspace)
    listed = Counter(
        (row.workflow, row.version, row.status)
        for row in await scene.store.list_runs(RunFilter(workspace=workspace, limit=10_000))
    )
    by_workflow: Counter[tuple[str, str, Status]] = Counter()
    by_status: Counter[str] = Counter()
    for count in counts:
        assert count.runs > 0
        by_workflow[count.workflow, count.version, count.status] += count.runs
        by_status[count.status] += count.runs
    assert by_workflow == listed
    return dict(by_status)


class FindRules:
    @pytest.mark.req("K40")
    @checked
    async def test_lists_are_in_the_order_of_creation(self, scene: Scene) -> None:
        first = await scene.start(id="r9")
        scene.clock.advance(1.0)
        second = await scene.start(id="r1")
        third = await scene.start(id="r5")

        assert await found(scene) == [third, second, first]
        assert await paged(scene, 1) == [third, second, first]

    @pytest.mark.req("K40")
    @checked
    async def test_runs_are_found_by_when_they_were_created(self, scene: Scene) -> None:
        runs, begin = [], scene.clock()
        for _ in range(4):
            runs.append(await scene.start())
            scene.clock.advance(10.0)

        assert await found(scene, since=begin + 10) == [runs[3], runs[2], runs[1]]
        assert await found(scene, until=begin + 10) == [runs[0]]
        assert await found(scene, since=begin + 10, until=begin + 30) == [runs[2], runs[1]]
        assert await paged(scene, 1, workflow="order", since=begin + 10, until=begin + 30) == [
            runs[2],
            runs[1],
        ]
        assert await found(scene, since=begin + 1000) == []

    @pytest.mark.req("K40")
    @checked
    async def test_runs_are_found_by_workflow_version_queue_and_status(self, scene: Scene) -> None:
        new = await scene.start(version="2", needs="order@2")
        paying = await scene.start(workflow="pay", queue="slow")
        failed = await scene.failed()
        suspended = await scene.suspended()
        owned = (await scene.begun()).run_id

        assert await found(scene, workflow="order") == [owned, suspended, failed, new]
        assert await found(scene, workflow="order", version="2") == [new]
        assert await found(scene, queue="slow") == [paying]
        assert await found(scene, statuses=[Status.PENDING]) == [paying, new]
        assert await found(scene, workflow="order", statuses=[Status.PENDING, Status.FAILED]) == [failed, new]
        assert await found(scene, statuses=[Status.RUNNING]) == [owned]
        assert await paged(scene, 2, workflow="order") == [owned, suspended, failed, new]
        assert await paged(scene, 1, statuses=[Status.SUSPENDED, Status.RUNNING]) == [owned, suspended]
        assert await found(scene, version="3") == []

    @pytest.mark.req("K40")
    @checked
    async def test_runs_are_found_by_trigger_and_parent(self, scene: Scene) -> None:
        parent = await scene.start(trigger="api")
        timed = [await scene.start(trigger="schedule") for _ in range(3)][::-1]
        children = [await scene.start(trigger="child", parent=parent) for _ in range(3)][::-1]
        await scene.start(trigger="schedule", workspace="other")

        assert await found(scene, trigger="schedule") == timed
        assert await paged(scene, 2, trigger="schedule") == timed
        assert await found(scene, trigger="api") == [parent]
        assert await found(scene, parent=parent) == children
        assert await paged(scene, 2, parent=parent, trigger="child") == children
        assert await found(scene, parent=parent, trigger="api") == []

    @pytest.mark.req("K40")
    @checked
    async def test_runs_are_found_by_the_beginning_of_their_key(self, scene: Scene) -> None:
        runs = {
            key: await scene.start(key=key) for key in ("b", "a-1", "a-10", "a-2", "a", "aé", "a\U0010ffff")
        }
        await scene.start(key="a-3", workspace="other")
        await scene.start(key="")

        assert await found(scene, prefix="a-") == [runs["a-2"], runs["a-10"], runs["a-1"]]
        assert await paged(scene, 1, prefix="a-1") == [runs["a-10"], runs["a-1"]]
        assert await paged(scene, 2, prefix="a") == [
            runs[key] for key in ("a\U0010ffff", "aé", "a-2", "a-10", "a-1", "a")
        ]
        assert await found(scene, prefix="a\U0010ffff") == [runs["a\U0010ffff"]]
        assert await found(scene, prefix="a-", workflow="pay") == []
        assert await found(scene, prefix="c") == []

    @pytest.mark.req("K40")
    @checked
    async def test_runs_are_found_by_the_beginning_of_their_id(self, scene: Scene) -> None:
        for run_id in ("01ab", "01ac", "02ab"):
            await scene.start(id=run_id)
        await scene.start(id="01ad", workspace="other")

        assert await found(scene, id_prefix="01") == ["01ac", "01ab"]
        assert await found(scene, id_prefix="01ab") == ["01ab"]
        assert await found(scene, id_prefix="03") == []

    @pytest.mark.req("K40")
    @checked
    async def test_runs_are_found_by_all_of_their_tags(self, scene: Scene) -> None:
        long = "v" * 5000
        both = await scene.start(tags=b'{"team":"a","env":"prod"}')
        one = await scene.start(tags=b'{"team":"a"}')
        await scene.start(tags=b'{"team":"a"}', workspace="other")
        wide = await scene.start(tags=f'{{"long":"{long}","nul":"a\\u0000b"}}'.encode())
        await scene.start()

        assert await found(scene, tags=[("team", "a")]) == [one, both]
        assert await paged(scene, 1, tags=[("team", "a")]) == [one, both]
        assert await found(scene, tags=[("team", "a"), ("env", "prod")]) == [both]
        assert await found(scene, tags=[("team", "a"), ("env", "test")]) == []
        assert await found(scene, tags=[("a", "team")]) == []
        assert await found(scene, tags=[("long", long)]) == [wide]
        assert await found(scene, tags=[("long", long[1:])]) == []
        assert await found(scene, tags=[("nul", "a\x00b")]) == [wide]
        assert await found(scene, tags=[("team", "a")], statuses=[Status.FAILED]) == []

    @pytest.mark.req("K40")
    @checked
    async def test_runs_are_found_by_the_words_of_their_error(self, scene: Scene) -> None:
        claim = await scene.begun()
        words = ("http_error", "connection", "refused")
        await scene.ok(
            scene.member(claim, scene.done("a"), then=scene.finish(claim, Status.FAILED, words=words))
        )
        await scene.failed()

        assert await found(scene, words=["refused"]) == [claim.run_id]
        assert await found(scene, words=["refused", "connection"]) == [claim.run_id]
        assert await found(scene, words=["refused", "reset"]) == []
        await scene.store.retry(claim.run_id)
        assert await found(scene, words=["refused"]) == []

    @pytest.mark.req("K40")
    @checked
    async def test_removed_and_restored_runs_are_lost_and_found(self, scene: Scene) -> None:
        claim = await scene.begun(tags=b'{"team":"a"}')
        end = scene.finish(claim, Status.FAILED, words=("refused",))
        await scene.ok(scene.member(claim, scene.done("a"), then=end))
        [copy] = await scene.store.read_tree(claim.run_id)

        await scene.store.remove(claim.run_id)
        gone = await found(scene, tags=[("team", "a")]), await found(scene, words=["refused"])
        counts = await counted(scene)
        await scene.store.restore([copy])

        assert gone == ([], [])
        assert counts == {}
        assert await found(scene, tags=[("team", "a")]) == [claim.run_id]
        assert await counted(scene) == {"failed": 1}


class CountRules:
    @pytest.mark.req("K40")
    @checked
    async def test_counts_follow_each_change_of_status(self, scene: Scene) -> None:
        assert await counted(scene) == {}
        await scene.start(workflow="pay", needs="pay@1")
        failed, suspended = await scene.failed(), await scene.suspended()
        owned = await scene.begun()
        await scene.start(workspace="other")

        assert await counted(scene) == {"pending": 1, "failed": 1, "suspended": 1, "running": 1}
        assert await counted(scene, "other") == {"pending": 1}
        await scene.store.retry(failed)
        assert await counted(scene) == {"pending": 1, "suspended": 1, "running": 2}
        await scene.ok(scene.member(owned, scene.completed(), then=scene.finish(owned)))
        await scene.store.cancel(suspended, "enough")
        assert await counted(scene) == {"pending": 1, "suspended": 1, "running": 1, "completed": 1}

    @pytest.mark.req("K40")
    @checked
    async def test_counts_are_by_workflow_version_queue_and_status(self, scene: Scene) -> None:
        await scene.store.start([scene.new_run() for _ in range(3)])
        await scene.start(version="2", queue="slow")
        await scene.start(workflow="pay")
        await scene.store.reap()  # where counts are kept in parts, this is when they are added up

        assert await scene.store.count_runs("default") == [
            RunCount("order", "1", QUEUE, Status.PENDING, 3),
            RunCount("order", "2", "slow", Status.PENDING, 1),
            RunCount("pay", "1", QUEUE, Status.PENDING, 1),
        ]

    @pytest.mark.req("K40")
    @checked
    async def test_a_run_ended_by_cancel_and_a_purged_one_are_counted(self, scene: Scene) -> None:
        pending = await scene.start()
        await scene.store.cancel(pending, "enough")

        assert await counted(scene) == {"cancelled": 1}
        scene.clock.advance(100.0)
        await scene.store.purge(1.0)
        assert await counted(scene) == {}


class BucketRules:
    @pytest.mark.req("S1")
    @checked
    async def test_runs_are_counted_by_the_time_of_their_creation(self, scene: Scene) -> None:
        began = scene.clock.time()
        await scene.failed()
        await scene.start(workflow="pay", needs="pay@1")
        scene.clock.advance(10.0)
        await scene.begun()
        await scene.start(workspace="other", queue="slow")
        scene.clock.advance(10.0)
        await scene.suspended()

        async def counts(**filter: Any) -> list[tuple[int, str, int]]:
            wanted = BucketFilter(since=began, width=5.0, buckets=4, **filter)
            return [(n, status.value, runs) for n, status, runs in await scene.store.count_buckets(wanted)]

        assert await counts() == [(0, "failed", 1), (0, "pending", 1), (2, "running", 1)]
        assert await counts(workflow="pay") == [(0, "pending", 1)]
        assert await counts(queue="nobody") == []
        assert await counts(workspace="other") == [(2, "pending", 1)]
        later = BucketFilter(since=began + 20.0, width=5.0, buckets=1)
        assert [tuple(row) for row in await scene.store.count_buckets(later)] == [(0, "suspended", 1)]


class OpenWaitRules:
    async def wait_at(self, scene: Scene, path: str, what: str, name: str, **changes: Any) -> RunId:
        """A run that waits there."""
        claim = await scene.begun(**changes)
        kind = "decision" if what in ("approval", "trigger") else what
        fact = WaitOpened(what=what, name=name, title=f"{name}?", form=Raw(b"true"))  # type: ignore[arg-type]  # a literal
        space = changes.get("workspace", "default")
        row = NewWait(path=path, kind=kind, name=name, what=what, workspace=space, timeout=60.0)
        await scene.ok(
            scene.member(
                claim, scene.done("a"), written(fact, path), then=scene.park(claim), waits_opened=[row]
            )
        )
        return claim.run_id

    async def opened(self, scene: Scene, **filter: Any) -> list[tuple[str, str]]:
        return [(row.run_id, row.path) for row in await self.open_rows(scene, **filter)]

    async def open_rows(self, scene: Scene, **filter: Any) -> list[WaitRow]:
        return list(await scene.store.list_waits(WaitFilter(**filter)))

    @pytest.mark.req("K40")
    @checked
    async def test_open_waits_of_all_runs_are_listed_newest_first(self, scene: Scene) -> None:
        asked = await self.wait_at(scene, "ask#1", "approval", "ask")
        scene.clock.advance(1.0)
        paid = await self.wait_at(scene, "paid#1", "signal", "paid")
        await self.wait_at(scene, "ask#1", "approval", "ask", workspace="other")
        scene.clock.advance(1.0)
        again = await self.wait_at(scene, "ask#1", "approval", "again")

        assert await self.opened(scene) == [(again, "ask#1"), (paid, "paid#1"), (asked, "ask#1")]
        assert await self.opened(scene, whats=["approval"]) == [(again, "ask#1"), (asked, "ask#1")]
        assert await self.opened(scene, whats=["approval"], name="ask") == [(asked, "ask#1")]
        assert await self.opened(scene, whats=["signal"], name="ask") == []
        first = await self.open_rows(scene, limit=2)
        assert await self.opened(scene, limit=2, before=wait_place(first[-1])) == [(asked, "ask#1")]

    @pytest.mark.req("K40")
    @checked
    async def test_a_wait_tells_its_question_and_when_it_is_due(self, scene: Scene) -> None:
        run = await self.wait_at(scene, "ask#1", "approval", "ask")
        [row] = await self.open_rows(scene)
        [event] = [event for event in await scene.log(run) if event.kind == "wait_opened"]

        assert (row.workflow, row.number, row.what, row.name) == ("order", 1, "approval", "ask")
        assert row.opened_at == event.at
        assert row.due_at == event.at + 60.0
        assert row.opened == event.payload

    @pytest.mark.req("K40")
    @checked
    async def test_a_wait_that_is_over_is_not_listed(self, scene: Scene) -> None:
        answered = await self.wait_at(scene, "ask#1", "approval", "ask")
        ended = await self.wait_at(scene, "go#1", "signal", "go")
        for run in (answered, ended):
            await scene.deliver(scene.signal(run))
        claims = await scene.claim_as("w1")
        for claim in claims:
            if claim.run_id == answered:
                part = scene.member(claim, scene.claimed(claim), waits_closed=["ask#1"])
            else:
                part = scene.member(claim, scene.claimed(claim), then=scene.finish(claim))
            await scene.ok(part)

        assert await self.opened(scene) == []

    @pytest.mark.req("K40")
    @checked
    async def test_copies_keep_their_open_waits(self, scene: Scene) -> None:
        run = await self.wait_at(scene, "ask#1", "approval", "ask")
        [before] = await self.open_rows(scene)
        [copy] = await scene.store.read_tree(run)
        await scene.store.cancel(run, "enough")
        [claim] = await scene.claim_as("w1")
        await scene.ok(scene.member(claim, scene.claimed(claim), then=scene.finish(claim, Status.CANCELLED)))
        await scene.store.remove(run)
        await scene.store.restore([copy])

        assert [row._replace(number=1) for row in await self.open_rows(scene)] == [before]


class DecidedRules:
    async def decided(self, scene: Scene, name: str, **changes: Any) -> RunId:
        """A run that asked, and whose answer came; then it suspends again."""
        claim = await scene.begun(**changes)
        asked = WaitOpened(what="approval", name=name, title=f"{name}?")
        answered = Received(key=f"decide:{name}", n=1, what="decide", name="ask#1", by="ana")
        end = WaitEnded(outcome="answered", received=answered.key)
        space = changes.get("workspace", "default")
        row = DecidedApproval(path="ask#1", name=name, opened=3, received=4, ended=5, workspace=space)
        facts = (written(asked, "ask#1"), written(answered), written(end, "ask#1"))
        await scene.ok(scene.member(claim, *facts, then=scene.park(claim), decided=[row]))
        return claim.run_id

    async def listed(self, scene: Scene, **filter: Any) -> list[DecidedRow]:
        return list(await scene.store.list_decided(DecidedFilter(**filter)))

    @pytest.mark.req("K40")
    @checked
    async def test_decided_approvals_are_listed_with_their_events_the_last_one_first(
        self, scene: Scene
    ) -> None:
        first = await self.decided(scene, "refund")
        scene.clock.advance(1.0)
        await self.decided(scene, "refund", workspace="other")
        scene.clock.advance(1.0)
        last = await self.decided(scene, "price")

        rows = await self.listed(scene)
        assert [(row.run_id, row.name, row.path) for row in rows] == [
            (last, "price", "ask#1"),
            (first, "refund", "ask#1"),
        ]
        log = await scene.log(last)
        assert (rows[0].opened_at, rows[0].at) == (log[2].at, log[4].at)
        assert [rows[0].opened, rows[0].received, rows[0].end] == [event.payload for event in log[2:5]]
        [one] = await self.listed(scene, limit=1)
        assert await self.listed(scene, before=decided_place(one)) == rows[1:]
        assert len(await self.listed(scene, workspace="other")) == 1

    @pytest.mark.req("K40")
    @checked
    async def test_decided_approvals_stay_with_their_run(self, scene: Scene) -> None:
        run = await self.decided(scene, "refund")
        before = await self.listed(scene)
        await scene.store.cancel(run, "enough")
        for claim in await scene.claim_as("w1"):
            end = scene.finish(claim, Status.CANCELLED)
            await scene.ok(scene.member(claim, scene.claimed(claim), then=end))
        [copy] = await scene.store.read_tree(run)
        assert await self.listed(scene) == before

        await scene.store.remove(run)
        assert await self.listed(scene) == []
        await scene.store.restore([copy])
        assert [row._replace(number=1) for row in await self.listed(scene)] == before
