"""Rules about workflows as a whole: the numbers of their runs, and whether they accept new ones."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from stepwell.domain.commit import NewEvent, WorkflowSwitch
from stepwell.domain.events import ChildStarted, Problem, written
from stepwell.domain.ids import RunId
from stepwell.domain.messages import EndNotice
from stepwell.domain.rates import RatedStart, Window
from stepwell.domain.status import Status
from stepwell.testing.stores.scene import Scene, checked


def switch(enabled: bool, workflow: str = "order", **parts: str) -> WorkflowSwitch:
    return WorkflowSwitch("default", workflow, enabled, parts.get("by", "ann"), b'"full"')


class NumberRules:
    @pytest.mark.req("K38")
    @checked
    async def test_runs_are_numbered_within_their_workflow(self, scene: Scene) -> None:
        first = await scene.start()
        other = await scene.start(workflow="pay")
        elsewhere = await scene.start(workspace="acme")
        many = [scene.new_run() for _ in range(3)]
        await scene.store.start(many)
        last = await scene.start(started_by="ann", trigger="api")

        rows = [await scene.run(run) for run in (first, other, elsewhere, last)]
        assert [row.number for row in rows] == [1, 1, 1, 5]
        assert sorted([(await scene.run(run.id)).number for run in many]) == [2, 3, 4]
        assert (rows[-1].started_by, rows[-1].trigger) == ("ann", "api")

    @pytest.mark.req("K38", "K6")
    @checked
    async def test_a_repeated_start_takes_no_number(self, scene: Scene) -> None:
        first = await scene.start(key="k")
        for _ in range(3):
            [again] = await scene.store.start([scene.new_run(key="k")])
            assert again.run_id == first

        assert (await scene.run(await scene.start())).number == 2

    @pytest.mark.req("K38")
    @checked
    async def test_those_who_start_at_once_get_different_numbers(self, scene: Scene) -> None:
        runs = [scene.new_run() for _ in range(40)]

        async with asyncio.TaskGroup() as group:
            for run in runs:
                group.create_task(scene.store.start([run]))

        assert sorted([(await scene.run(run.id)).number for run in runs]) == list(range(1, 41))

    @pytest.mark.req("K38", "K29")
    @checked
    async def test_a_restored_run_gets_a_new_number(self, scene: Scene) -> None:
        run = await scene.start(started_by="ann")
        [copy] = await scene.store.read_tree(run)

        await scene.store.restore([replace(copy, id=RunId("copy"), key="other")])

        restored = await scene.run("copy")
        assert (restored.number, restored.started_by) == (2, "ann")


class SwitchRules:
    @pytest.mark.req("K39")
    @checked
    async def test_a_disabled_workflow_accepts_no_new_runs(self, scene: Scene) -> None:
        known = await scene.start(key="known")
        assert await scene.store.switch(switch(False))

        answers = await scene.store.start([scene.new_run(), scene.new_run(workflow="pay"), scene.new_run()])
        rated = RatedStart([scene.new_run()], [Window("workflow default/order", 5, 60.0)])
        [within] = await scene.store.start_within(rated)  # type: ignore[misc]  # not Full
        [repeated] = await scene.store.start([scene.new_run(key="known")])
        elsewhere = await scene.start(workspace="acme")

        assert [(a.created, a.disabled) for a in answers] == [(False, True), (True, False), (False, True)]
        assert (within.created, within.disabled) == (False, True)
        assert (repeated.run_id, repeated.disabled) == (known, False), "it was accepted before"
        assert await scene.store.read_run(answers[0].run_id) is None
        assert (await scene.run(elsewhere)).workspace == "acme"

    @pytest.mark.req("K39")
    @checked
    async def test_an_enabled_workflow_accepts_runs_again(self, scene: Scene) -> None:
        assert not await scene.store.switch(switch(True)), "it was never disabled"
        assert await scene.store.switch(switch(False, by="ann"))
        at = scene.clock()
        scene.clock.advance(5.0)
        assert not await scene.store.switch(switch(False, by="bob")), "the first one counts"
        [disabled] = await scene.store.list_switches("default")
        assert await scene.store.switch(switch(True, by="cid"))
        [enabled] = await scene.store.list_switches("default")

        assert disabled == ("default", "order", False, "ann", b'"full"', at)
        assert (enabled.enabled, enabled.by, enabled.at) == (True, "cid", at + 5.0)
        assert list(await scene.store.list_switches("acme")) == []
        assert await scene.start()

    @pytest.mark.req("K39")
    @checked
    async def test_live_runs_of_a_disabled_workflow_continue(self, scene: Scene) -> None:
        claim = await scene.begun()
        failed = await scene.failed()
        await scene.store.switch(switch(False))

        await scene.ok(scene.member(claim, scene.done("a"), then=scene.finish(claim)))
        assert await scene.store.retry(failed) == "retried"

        assert (await scene.run(claim.run_id)).status is Status.COMPLETED

    @pytest.mark.req("K39", "K18")
    @checked
    async def test_a_child_of_a_disabled_workflow_fails_and_its_parent_hears_of_it(
        self, scene: Scene
    ) -> None:
        claim = await scene.begun()
        await scene.store.switch(switch(False, "pay"))
        child = scene.new_run(workflow="pay", parent=claim.run_id, parent_path="0/pay#1", key="")
        detached = scene.new_run(workflow="pay", key="")

        commit = scene.member(claim, self._started(child.id), starts=[child, detached])
        commit.then = scene.park(claim)
        await scene.ok(commit)

        for run in (child, detached):
            row = await scene.run(run.id)
            assert row.status is Status.FAILED
            assert row.error is not None
            assert msgspec.json.decode(row.error, type=Problem).code == "WORKFLOW_DISABLED"
            assert await scene.kinds(run.id) == ["accepted", "failed"]
        [again] = await scene.claim_as("w1")
        assert again.run_id == claim.run_id, "it is due, although it parked"
        [message] = again.inbox
        notice = msgspec.json.decode(message.payload, type=EndNotice)
        assert (message.kind, message.name, notice.status, notice.run) == (
            "child",
            "0/pay#1",
            "failed",
            child.id,
        )

    def _started(self, run: str) -> NewEvent:
        return written(ChildStarted(run=run, workflow="pay"), "0/pay#1")

    @pytest.mark.req("K39", "K29")
    @checked
    async def test_a_copy_that_starts_is_refused_and_one_that_is_restored_is_not(self, scene: Scene) -> None:
        [copy] = await scene.store.read_tree(await scene.start())
        new = replace(copy, id=RunId("copy"), key="")
        await scene.store.switch(switch(False))

        [refused] = await scene.store.restore([new], starts=True)
        assert (refused.created, refused.disabled) == (False, True)
        [restored] = await scene.store.restore([new])
        assert restored.created
