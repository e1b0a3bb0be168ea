"""Rules of notifications and alerts: sent by one process at a time, checked by one, found by indexes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from stepwell.domain.alerts import Alert, AlertKind, AlertQuery, AlertSettings
from stepwell.domain.commit import Outcome
from stepwell.domain.notifications import GIVEN_UP_SECONDS, PendingNotification, TakenNotifications
from stepwell.testing.stores.limits import lane
from stepwell.testing.stores.scene import Scene, checked

T = TypeVar("T")
INCIDENTS = b'[{"subject":"order","id":"i","since":1.0}]'


def notification(id: str = "n1", **changes: Any) -> PendingNotification:
    values = {"kind": "approval", "channel": "ops", "body": b'{"path":"a"}', "workspace": "default"}
    return PendingNotification(**{"id": id, **values, **changes})


def alert(name: str = "failures", *, what: AlertKind = "failed", **changes: Any) -> Alert:
    settings = msgspec.json.encode(AlertSettings(what=what, every=15.0))
    return Alert(**{"id": f"id-{name}", "name": name, "settings": settings, "created_by": "ana", **changes})


async def written(scene: Scene, *rows: PendingNotification) -> None:
    """Let a run write them."""
    claim = await scene.begun()
    await scene.ok(scene.member(claim, scene.done("a"), notifications=rows))


async def take(scene: Scene, *channels: str, **options: Any) -> TakenNotifications:
    return await scene.store.take_notifications(channels or ("ops",), **{"seconds": 60.0, **options})


async def together(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call) for call in calls]
    return [task.result() for task in tasks]


class NotificationRules:
    @pytest.mark.req("N12")
    @checked
    async def test_what_a_commit_writes_is_taken_by_one_process(self, scene: Scene) -> None:
        await written(scene, notification(run_id="r"), notification("n2", channel="other"))

        first, second = await take(scene), await take(scene)

        [row] = first.rows
        assert row == replace(notification(run_id="r"), created_at=scene.clock(), attempt=1)
        assert (list(second.rows), second.next_in) == ([], 60.0)
        assert [row.id for row in (await take(scene, "x", "other")).rows] == ["n2"]
        assert (await take(scene, "x")).next_in is None

    @pytest.mark.req("N12")
    @checked
    async def test_a_commit_that_is_lost_writes_none(self, scene: Scene) -> None:
        claim = await scene.begun()
        stale = scene.member(claim, scene.done("a"), head=claim.head - 1, notifications=[notification()])

        assert (await scene.commit(stale)).outcome is Outcome.LOST
        assert (await take(scene)).rows == []

    @pytest.mark.req("N12")
    @checked
    async def test_one_whose_sender_died_is_taken_again_under_the_same_id(self, scene: Scene) -> None:
        await written(scene, notification())
        [first] = (await take(scene)).rows

        scene.clock.advance(60.0)
        [second] = (await take(scene)).rows

        assert (second.id, second.attempt) == (first.id, 2)
        assert not await scene.store.settle_notification(first.id, first.attempt)
        assert await scene.store.settle_notification(second.id, second.attempt)
        assert not await scene.store.settle_notification(second.id, second.attempt)
        scene.clock.advance(600.0)
        assert (await take(scene)).rows == []

    @pytest.mark.req("N12")
    @checked
    async def test_one_that_failed_is_due_after_its_delay(self, scene: Scene) -> None:
        await written(scene, notification())
        [row] = (await take(scene)).rows

        assert await scene.store.settle_notification(row.id, row.attempt, retry_in=5.0, error="SMTP_451")

        assert (await take(scene)).next_in == 5.0
        scene.clock.advance(5.0)
        [again] = (await take(scene)).rows
        assert (again.attempt, again.error, again.ended_at) == (2, "SMTP_451", None)

    @pytest.mark.req("N12")
    @checked
    async def test_one_may_become_several_and_each_is_written_once(self, scene: Scene) -> None:
        await written(scene, notification())
        [row] = (await take(scene)).rows
        more = [notification("n1/ana"), notification("n1/bob"), notification("n1/ana")]

        await scene.store.settle_notification(row.id, row.attempt, more=more)

        assert sorted(each.id for each in (await take(scene)).rows) == ["n1/ana", "n1/bob"]

    @pytest.mark.req("N12")
    @checked
    async def test_takes_that_meet_share_what_is_due(self, scene: Scene) -> None:
        await written(scene, *(notification(f"n{i:02}") for i in range(20)))

        taken = await together([take(scene, limit=5) for _ in range(6)])

        ids = [row.id for one in taken for row in one.rows]
        assert len(ids) == len(set(ids))
        rest = (await take(scene, limit=20)).rows
        assert sorted([*ids, *(row.id for row in rest)]) == [f"n{i:02}" for i in range(20)]

    @pytest.mark.req("N12")
    @checked
    async def test_what_ended_long_ago_is_purged(self, scene: Scene) -> None:
        await written(scene, notification("n1"), notification("n2"))
        for row in (await take(scene, limit=1)).rows:
            await scene.store.settle_notification(row.id, row.attempt)

        scene.clock.advance(100.0)

        assert await scene.store.purge_notifications(200.0) == 0
        assert await scene.store.purge_notifications(50.0) == 1
        assert [row.id for row in (await take(scene)).rows] == ["n2"]

    @pytest.mark.req("N12")
    @checked
    async def test_what_no_process_sends_is_purged_in_the_end(self, scene: Scene) -> None:
        await written(scene, notification("n1", channel="gone"), notification("n2"))
        scene.clock.advance(100.0 + GIVEN_UP_SECONDS)
        [row] = (await take(scene)).rows
        await scene.store.settle_notification(row.id, row.attempt, retry_in=5.0)

        assert await scene.store.purge_notifications(200.0) == 0
        assert await scene.store.purge_notifications(50.0) == 1
        assert (await take(scene, "gone")).next_in is None
        assert (await take(scene)).next_in == 5.0


class AlertRules:
    @pytest.mark.req("T5")
    @checked
    async def test_an_alert_is_read_as_it_was_put_and_keeps_what_it_found(self, scene: Scene) -> None:
        await scene.store.put_alert(alert())
        await scene.store.put_alert(alert("größe", workspace="acme", paused=True, id="other"))
        [taken] = (await scene.store.take_alerts()).rows
        await scene.store.settle_alert(taken.id, taken.turn, INCIDENTS, [])

        await scene.store.put_alert(alert(id="ignored", settings=b'{"what":"stuck"}', created_by="bob"))

        [mine] = await scene.store.list_alerts("default")
        assert (mine.id, mine.settings, mine.created_by) == ("id-failures", b'{"what":"stuck"}', "bob")
        assert mine.incidents == INCIDENTS
        assert [row.name for row in await scene.store.list_alerts("")] == ["größe", "failures"]
        assert await scene.store.list_alerts("default", name="größe") == []
        assert (await scene.store.list_alerts("acme"))[0].paused
        assert await scene.store.drop_alert("default", "failures")
        assert not await scene.store.drop_alert("default", "failures")

    @pytest.mark.req("T5")
    @checked
    async def test_each_check_is_taken_once_and_only_the_last_one_counts(self, scene: Scene) -> None:
        await scene.store.put_alert(alert())
        await scene.store.put_alert(alert("paused", paused=True))

        [first] = (await scene.store.take_alerts()).rows
        meanwhile = await scene.store.take_alerts()
        scene.clock.advance(15.0)
        [second] = (await scene.store.take_alerts()).rows

        assert (list(meanwhile.rows), meanwhile.next_in) == ([], 15.0)
        assert second.turn > first.turn
        assert not await scene.store.settle_alert(first.id, first.turn, INCIDENTS, [notification("late")])
        assert await scene.store.settle_alert(second.id, second.turn, INCIDENTS, [notification("right")])
        assert [row.id for row in (await take(scene)).rows] == ["right"]

    @pytest.mark.req("T5")
    @checked
    async def test_checks_that_meet_share_the_alerts(self, scene: Scene) -> None:
        for i in range(10):
            await scene.store.put_alert(alert(f"a{i}"))

        taken = await together([scene.store.take_alerts(limit=3) for _ in range(6)])

        ids = [row.id for one in taken for row in one.rows]
        assert len(ids) == len(set(ids))


def query(scene: Scene, what: AlertKind, after: float = 0.0, **changes: Any) -> AlertQuery:
    values: dict[str, Any] = {"workspace": "default", "at": scene.clock() - after}
    return AlertQuery(what=what, **{**values, **changes})


class FindingRules:
    @pytest.mark.req("T5")
    @checked
    async def test_failed_runs_are_found_by_their_end(self, scene: Scene) -> None:
        early = await scene.failed()
        scene.clock.advance(100.0)
        late = [await scene.failed(), await scene.failed(workflow="pay")]
        claim = await scene.begun()
        await scene.ok(scene.member(claim, scene.completed(), then=scene.finish(claim)))
        await scene.failed(workspace="acme")
        await scene.failed(test=True)

        recent = await scene.store.find(query(scene, "failed", 50.0))
        every = await scene.store.find(query(scene, "failed", 500.0, workflow="order"))
        one = await scene.store.find(query(scene, "failed", 500.0, workflow="order", limit=1))

        assert sorted((each.subject, each.run_id) for each in recent) == [
            ("order", late[0]),
            ("pay", late[1]),
        ]
        assert [each.run_id for each in every] == [early, late[0]]
        assert [each.run_id for each in one] == [early]

    @pytest.mark.req("T5")
    @checked
    async def test_live_runs_are_overdue_by_their_age(self, scene: Scene) -> None:
        ended = await scene.failed()
        old = [await scene.suspended(), await scene.start()]
        scene.clock.advance(100.0)
        await scene.start()

        findings = await scene.store.find(query(scene, "overdue", 50.0))

        assert sorted(each.run_id for each in findings) == sorted(old)
        assert ended not in [each.run_id for each in findings]

    @pytest.mark.req("T5")
    @checked
    async def test_runs_are_stuck_if_nobody_takes_them_or_nothing_is_heard_of_them(
        self, scene: Scene
    ) -> None:
        waiting = await scene.suspended()  # for a message, as it should
        silent = (await scene.begun(queue="apart", key="a")).run_id
        woken = await scene.suspended(key="d")
        await scene.deliver(scene.signal(woken))
        limited = await scene.start(lane=lane(5), key="b")
        untaken = await scene.start(priority=3, key="c")
        held = await scene.start(key="e")
        await scene.store.hold(held)
        scene.clock.advance(100.0)
        young = await scene.start(key="f")

        for few in (0, 1000):  # found by time, and one by one
            findings = await scene.store.find(query(scene, "stuck", 50.0, few=few))

            ids = {each.run_id for each in findings}
            assert ids == {silent, limited, untaken, woken}
            assert not ids & {waiting, held, young}
            assert await scene.store.find(query(scene, "stuck", 50.0, workflow="pay", few=few)) == []
            assert await scene.store.find(query(scene, "stuck", 50.0, workspace="acme", few=few)) == []

    @pytest.mark.req("T5")
    @checked
    async def test_a_stuck_run_is_found_behind_many_of_the_same_kind(self, scene: Scene) -> None:
        """Runs of graphs are of one kind, whatever their workflow."""
        for n in range(7):
            await scene.start(workflow="common", needs="graph", key=f"c{n}", lane=lane(9) if n % 2 else "")
        for workspace in ("default", "acme"):
            for where in ("", lane(9)):
                await scene.start(
                    workflow="rare", needs="graph", workspace=workspace, key=f"r{where}", lane=where
                )
        scene.clock.advance(100.0)

        for few in (0, 2, 1000):
            every = await scene.store.find(query(scene, "stuck", 50.0, limit=3, few=few))
            rare = await scene.store.find(query(scene, "stuck", 50.0, limit=3, few=few, workflow="rare"))

            assert Counter(each.subject for each in every) == {"common": 3, "rare": 2}
            assert [each.subject for each in rare] == ["rare"] * 2

    @pytest.mark.req("T5")
    @checked
    async def test_a_queue_is_as_full_as_runs_have_not_begun_in_it(self, scene: Scene) -> None:
        for _ in range(3):
            await scene.start(queue="narrow")
        await scene.start()
        await scene.start(queue="wide", workspace="acme")

        [finding] = await scene.store.find(query(scene, "full_queue", queue="narrow"))

        assert (finding.subject, finding.runs) == ("narrow", 3)
        await scene.claims(await scene.worker(), limit=2, queues=("narrow",))
        [finding] = await scene.store.find(query(scene, "full_queue", queue="narrow"))
        assert finding.runs == 1
        assert await scene.store.find(query(scene, "full_queue", queue="wide")) == []
