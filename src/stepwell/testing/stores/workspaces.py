"""Rules about workspaces: what belongs to one is not seen in another."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.domain.commit import Message, NewWait, PublishedEvent, RunFilter
from stepwell.domain.ids import RunId
from stepwell.testing.stores.scene import Scene, checked
from stepwell.testing.stores.workflows import switch


def event(id: str, workspace: str, **parts: Any) -> PublishedEvent:
    name, key = parts.get("name", "paid"), parts.get("key", "")
    return PublishedEvent(id, name, key, b"1", 0.0, workspace, parts.get("by", ""))


class WorkspaceRules:
    async def waiting(self, scene: Scene, workspace: str, key: str = "") -> RunId:
        claim = await scene.begun(workspace=workspace)
        wait = NewWait(path="w#1", kind="event", name="paid", key=key, workspace=workspace)
        commit = scene.member(claim, scene.done("a"), waits_opened=[wait], then=scene.park(claim))
        await scene.ok(commit)
        return claim.run_id

    @pytest.mark.req("K46")
    @checked
    async def test_an_event_reaches_only_runs_of_its_workspace(self, scene: Scene) -> None:
        here = [await self.waiting(scene, "default", key) for key in ("", "k")]
        there = [await self.waiting(scene, "acme", key) for key in ("", "k")]

        await scene.store.emit(event("e1", "acme", key="k"))
        for claim in await scene.claim_events("w1"):
            await scene.store.fan_out(claim)

        for run in here:
            assert list(await scene.store.read_inbox(run)) == []
        for run in there:
            assert [row.key for row in await scene.store.read_inbox(run)] == ["evt/e1"]

    @pytest.mark.req("K46", "K35")
    @checked
    async def test_published_events_are_those_of_one_workspace(self, scene: Scene) -> None:
        await scene.store.emit(event("e1", "default", key="k"))
        await scene.store.emit(event("e2", "acme", key="k", by="ann"))

        for key in ("", "k"):
            here = await scene.store.published("paid", key, since=0.0)
            there = await scene.store.published("paid", key, since=0.0, workspace="acme")
            assert [(e.id, e.workspace, e.by) for e in here] == [("e1", "default", "")]
            assert [(e.id, e.workspace, e.by) for e in there] == [("e2", "acme", "ann")]

    @pytest.mark.req("K46", "K35")
    @checked
    async def test_a_wait_keeps_events_of_its_own_workspace_only(self, scene: Scene) -> None:
        await self.waiting(scene, "acme")
        await scene.store.emit(event("e1", "default"))
        await scene.store.emit(event("e2", "acme"))
        for claim in await scene.claim_events("w1"):
            await scene.store.fan_out(claim)
        scene.clock.advance(10 * 86_400.0)

        assert await scene.store.purge_events(0.0) == 1

        assert list(await scene.store.published("paid", "", since=0.0)) == []
        assert len(await scene.store.published("paid", "", since=0.0, workspace="acme")) == 1

    @pytest.mark.req("K46")
    @checked
    async def test_keys_lists_and_switches_belong_to_a_workspace(self, scene: Scene) -> None:
        here = await scene.start(key="k")
        there = await scene.start(key="k", workspace="acme")
        await scene.store.switch(switch(False))

        assert await scene.store.find_run("default", "k") == here
        assert await scene.store.find_run("acme", "k") == there
        assert [row.id for row in await scene.store.list_runs(RunFilter(workspace="acme"))] == [there]
        assert await scene.start(workspace="acme")
        assert list(await scene.store.list_switches("acme")) == []

    @pytest.mark.req("K46", "K29")
    @checked
    async def test_a_wait_moves_with_its_run_to_another_workspace(self, scene: Scene) -> None:
        run = await self.waiting(scene, "default")
        [copy] = await scene.store.read_tree(run)
        moved = replace(copy, id=RunId("moved"), workspace="acme")

        await scene.store.restore([moved])
        [there] = await scene.store.read_tree(RunId("moved"))

        assert [wait.workspace for wait in there.waits] == ["acme"]

    @pytest.mark.req("K46", "X2")
    @checked
    async def test_another_workspace_is_found_by_what_it_keeps(self, scene: Scene) -> None:
        await scene.begun(workspace="default")
        assert await scene.store.find_other_workspace("default") == ""
        assert await scene.store.find_other_workspace("acme") == "default"

        await scene.begun(workspace="acme")
        assert await scene.store.find_other_workspace("default") == "acme"
        assert await scene.store.find_other_workspace("acme") == "default"


class SenderRules:
    @pytest.mark.req("K38")
    @checked
    async def test_a_message_says_who_sent_it(self, scene: Scene) -> None:
        run, other = await scene.suspended(), await scene.suspended()
        messages = [scene.signal(run, "s1"), scene.signal(run, "s2")]
        for message in messages:
            await scene.store.deliver([_by(message, "ann")])
        await scene.store.deliver([_by(scene.signal(other, f"t{n}"), f"p{n}") for n in range(3)])

        assert [row.by for row in await scene.store.read_inbox(run)] == ["ann", "ann"]
        assert [row.by for row in await scene.store.read_inbox(other)] == ["p0", "p1", "p2"]
        [claim] = [c for c in await scene.claim_as("w1") if c.run_id == other]
        assert [row.by for row in claim.inbox] == ["p0", "p1", "p2"]


def _by(message: Message, by: str) -> Message:
    return replace(message, by=by)
