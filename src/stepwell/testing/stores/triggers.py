"""Rules of triggers: how they are kept, and that each slot of a schedule starts one run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from stepwell.domain.codec import PAYLOAD_BYTES_MAX
from stepwell.domain.commit import Definition, RunFilter, WorkflowSwitch
from stepwell.domain.ids import RunId
from stepwell.domain.status import Status
from stepwell.domain.triggers.schedule import ScheduleSettings, next_slot, slot_key
from stepwell.domain.triggers.scheduled_runs import ScheduledRuns, state_of
from stepwell.domain.triggers.trigger import DueTrigger, Fired, Firing, Trigger, TriggerFilter
from stepwell.system import SystemIds
from stepwell.testing.stores.scene import Scene, checked

ORDER = Definition(name="order", version="1", kind="function")
SECRET = b'{"input":{"n":1},"tags":{"team":"a"}}'


def schedule(scene: Scene, name: str = "nightly", **changes: Any) -> Trigger:
    """A schedule that is due each minute, from the next full one on."""
    settings = ScheduleSettings(**{"every": 60.0, **changes.pop("settings", {})})
    slot = next_slot(settings, scene.clock())
    values: dict[str, Any] = {
        "id": f"id-{name}",
        "type": "schedule",
        "name": name,
        "workflow": "order",
        "settings": msgspec.json.encode(settings),
        "start": SECRET,
        "slot": slot,
        "next_at": slot,
        "created_at": 5.0,
        "created_by": "ann",
        "updated_at": 5.0,
        "updated_by": "ann",
    }
    return Trigger(**{**values, **changes})


def runs_of(scene: Scene) -> ScheduledRuns:
    return ScheduledRuns(SystemIds(), PAYLOAD_BYTES_MAX)


async def fire(scene: Scene, **options: Any) -> Fired:
    return await scene.store.fire_due(runs_of(scene).fire, **options)


async def keys(scene: Scene, workspace: str = "default") -> list[str]:
    rows = await scene.store.list_runs(RunFilter(workspace=workspace, limit=1000))
    return sorted(row.key for row in rows)


async def read(scene: Scene, name: str = "nightly") -> Trigger:
    trigger = await scene.store.read_trigger("default", "schedule", name)
    assert trigger is not None
    return trigger


class TriggerRules:
    @pytest.mark.req("T1")
    @checked
    async def test_a_trigger_is_read_as_it_was_put(self, scene: Scene) -> None:
        plain = schedule(scene)
        full = schedule(
            scene,
            "größe",
            version="2",
            match="paid",
            paused=b'{"by":"bob"}',
            slot=None,
            next_at=None,
            origin="g",
        )
        assert await scene.store.put_trigger(plain, expected=0)
        assert await scene.store.put_trigger(full, expected=0)

        assert await read(scene) == plain
        assert await read(scene, "größe") == full
        assert await scene.store.read_trigger("default", "schedule", "nobody") is None
        assert await scene.store.read_trigger("default", "event", "nightly") is None

    @pytest.mark.req("T1")
    @checked
    async def test_a_name_belongs_to_one_trigger_of_its_type_and_workspace(self, scene: Scene) -> None:
        first = schedule(scene)
        assert await scene.store.put_trigger(first, expected=0)
        others = [replace(first, id="b", type="event"), replace(first, id="c", workspace="acme")]

        assert not await scene.store.put_trigger(replace(first, id="a", updated_by="bob"), expected=0)
        assert [await scene.store.put_trigger(other, expected=0) for other in others] == [True, True]
        assert await read(scene) == first

    @pytest.mark.req("T1")
    @checked
    async def test_a_trigger_is_replaced_only_in_the_revision_that_was_read(self, scene: Scene) -> None:
        first = schedule(scene)
        await scene.store.put_trigger(first, expected=0)
        mine = replace(first, revision=2, workflow="pay", updated_at=6.0, updated_by="bob")
        theirs = replace(first, revision=2, workflow="send", updated_at=7.0, updated_by="cid")

        assert await scene.store.put_trigger(mine, expected=1)
        assert not await scene.store.put_trigger(theirs, expected=1)
        assert await scene.store.put_trigger(mine, expected=1)  # repeated: its answer was lost
        assert await read(scene) == mine

    @pytest.mark.req("T1")
    @checked
    async def test_replacing_keeps_what_firing_wrote(self, scene: Scene) -> None:
        await scene.store.put_definitions([ORDER])
        first = schedule(scene)
        await scene.store.put_trigger(first, expected=0)
        scene.clock.advance(60.0)
        await fire(scene)
        fired = await read(scene)

        await scene.store.put_trigger(replace(first, revision=2, updated_at=6.0), expected=1)

        changed = await read(scene)
        assert (changed.state, changed.last_run) == (fired.state, fired.last_run)
        assert changed.last_run

    @pytest.mark.req("T1")
    @checked
    async def test_triggers_are_listed_by_name_workflow_match_and_origin(self, scene: Scene) -> None:
        for number, name in enumerate(("c", "a", "b", "d")):
            row = schedule(
                scene, name, workflow="pay" if name < "c" else "order", match=name, origin="g" * number
            )
            await scene.store.put_trigger(row, expected=0)
        await scene.store.put_trigger(schedule(scene, "e", workspace="acme"), expected=0)

        async def names(**filter: Any) -> list[str]:
            rows = await scene.store.list_triggers(TriggerFilter(**{"type": "schedule", **filter}))
            return [row.name for row in rows]

        assert await names() == ["a", "b", "c", "d"]
        assert await names(after="a", limit=2) == ["b", "c"]
        assert await names(workflow="pay") == ["a", "b"]
        assert await names(workflow="pay", match="b") == ["b"]
        assert await names(match="c") == ["c"]
        assert await names(origin="gg") == ["b"]
        assert await names(workspace="acme") == ["e"]
        assert await names(type="event") == []

    @pytest.mark.req("T1")
    @checked
    async def test_a_dropped_trigger_is_gone_and_never_due(self, scene: Scene) -> None:
        await scene.store.put_definitions([ORDER])
        await scene.store.put_trigger(schedule(scene), expected=0)
        scene.clock.advance(60.0)

        assert await scene.store.drop_trigger("default", "schedule", "nightly")
        assert not await scene.store.drop_trigger("default", "schedule", "nightly")
        assert await scene.store.read_trigger("default", "schedule", "nightly") is None
        assert (await fire(scene)).next_in is None
        assert await keys(scene) == []


class FireRules:
    async def arranged(self, scene: Scene, **changes: Any) -> Trigger:
        await scene.store.put_definitions([ORDER])
        row = schedule(scene, **changes)
        await scene.store.put_trigger(row, expected=0)
        return row

    @pytest.mark.req("T1")
    @checked
    async def test_nothing_fires_before_it_is_due_and_the_answer_says_when(self, scene: Scene) -> None:
        assert (await fire(scene)).next_in is None
        row = await self.arranged(scene)
        assert row.next_at is not None

        fired = await fire(scene)

        assert (fired.triggers, list(fired.runs)) == (0, [])
        assert fired.next_in == pytest.approx(row.next_at - scene.clock())

    @pytest.mark.req("T1")
    @checked
    async def test_a_slot_starts_one_run_and_sets_the_next(self, scene: Scene) -> None:
        row = await self.arranged(scene)
        assert row.slot is not None
        scene.clock.advance(row.slot - scene.clock())

        fired = await fire(scene)
        again = await fire(scene)

        assert (fired.triggers, again.triggers) == (1, 0)
        [run] = await scene.store.list_runs(RunFilter())
        assert (run.key, run.input, run.trigger) == (slot_key(row.id, row.slot), b'{"n":1}', "schedule")
        assert msgspec.json.decode(run.tags) == {"team": "a", "schedule": "nightly"}
        after = await read(scene)
        assert (after.slot, after.next_at, after.last_run) == (row.slot + 60.0, row.slot + 60.0, run.id)
        assert again.next_in == pytest.approx(60.0)
        assert (await scene.log(run.id))[0].kind == "accepted"
        assert len(await scene.store.read_tickets(run.id)) == 1

    @pytest.mark.req("T1")
    @checked
    async def test_two_schedulers_at_once_start_each_slot_once(self, scene: Scene) -> None:
        await scene.store.put_definitions([ORDER])
        rows = [schedule(scene, f"s{number:03d}") for number in range(40)]
        for row in rows:
            await scene.store.put_trigger(row, expected=0)
        scene.clock.advance(60.0)

        for _ in range(10):
            async with asyncio.TaskGroup() as group:
                for _ in range(2):
                    group.create_task(fire(scene, limit=7))

        assert await keys(scene) == sorted(slot_key(row.id, row.slot or 0.0) for row in rows)
        assert sorted(row.number for row in await scene.store.list_runs(RunFilter())) == list(range(1, 41))

    @pytest.mark.req("T1")
    @checked
    async def test_a_slot_whose_key_has_a_run_starts_no_second_one(self, scene: Scene) -> None:
        row = await self.arranged(scene)
        assert row.slot is not None
        await scene.start(key=slot_key(row.id, row.slot))
        scene.clock.advance(60.0)

        await fire(scene)

        assert await keys(scene) == [slot_key(row.id, row.slot)]
        assert (await read(scene)).slot == row.slot + 60.0

    @pytest.mark.req("T1")
    @checked
    async def test_skip_starts_nothing_while_the_last_run_is_live(self, scene: Scene) -> None:
        await self.arranged(scene, settings={"overlap": "skip"})
        scene.clock.advance(60.0)
        await fire(scene)
        scene.clock.advance(60.0)

        skipped = await fire(scene)
        [claim] = await scene.claim_as(await scene.worker())
        await scene.ok(scene.member(claim, scene.completed(), then=scene.finish(claim)))
        scene.clock.advance(60.0)
        await fire(scene)

        assert (skipped.triggers, list(skipped.runs)) == (1, [])
        assert len(await keys(scene)) == 2
        state = state_of(await read(scene))
        assert (state.started, state.skipped) == (2, 1)
        assert state.last_skip is not None
        assert state.last_skip.reason == "overlap"

    @pytest.mark.req("T1")
    @checked
    async def test_queue_lets_one_run_after_the_other_begin(self, scene: Scene) -> None:
        await self.arranged(scene)
        for _ in range(2):
            scene.clock.advance(60.0)
            await fire(scene)
        worker = await scene.worker()

        [first] = await scene.claim_as(worker)
        assert await scene.claim_as(worker) == []
        await scene.ok(scene.member(first, scene.completed(), then=scene.finish(first)))

        assert len(await scene.claim_as(worker)) == 1

    @pytest.mark.req("T1")
    @checked
    async def test_allow_lets_runs_overlap(self, scene: Scene) -> None:
        await self.arranged(scene, settings={"overlap": "allow"})
        for _ in range(2):
            scene.clock.advance(60.0)
            await fire(scene)

        assert len(await scene.claim_as(await scene.worker())) == 2

    @pytest.mark.req("T1")
    @checked
    async def test_an_outage_of_three_hours_follows_the_policy(self, scene: Scene) -> None:
        policies = {"skip": (0, 181), "one": (1, 180), "all": (100, 81)}
        rows = {
            missed: await self.arranged(
                scene, name=missed, settings={"missed": missed, "overlap": "allow", "every": 61.0}
            )
            for missed in policies
        }
        first = rows["one"].slot
        assert first is not None
        last = first + 61.0 * 180
        scene.clock.advance(last + 60.5 - scene.clock())

        while (fired := await fire(scene)).triggers:
            assert len(fired.runs) <= 11  # in chunks

        for missed, (started, skipped) in policies.items():
            state = state_of(await read(scene, missed))
            assert (state.started, state.skipped) == (started, skipped), missed
            expected = [slot_key(f"id-{missed}", last - 61.0 * back) for back in reversed(range(started))]
            assert [key for key in await keys(scene) if f"id-{missed}" in key] == expected

    @pytest.mark.req("T1")
    @checked
    async def test_a_disabled_or_missing_workflow_skips_the_slot_and_says_why(self, scene: Scene) -> None:
        await scene.store.put_trigger(schedule(scene), expected=0)
        scene.clock.advance(60.0)
        await fire(scene)
        missing = state_of(await read(scene))
        await scene.store.put_definitions([ORDER])
        await scene.store.switch(WorkflowSwitch("default", "order", False))
        scene.clock.advance(60.0)
        await fire(scene)
        disabled = state_of(await read(scene))

        assert missing.last_skip is not None
        assert disabled.last_skip is not None
        assert (missing.last_skip.reason, disabled.last_skip.reason) == ("no_workflow", "disabled")
        assert await keys(scene) == []

    @pytest.mark.req("T1")
    @checked
    async def test_the_latest_version_runs_unless_one_is_named(self, scene: Scene) -> None:
        await scene.store.put_definitions([ORDER, replace(ORDER, version="2")])
        await scene.store.put_trigger(schedule(scene, "old", version="1"), expected=0)
        await scene.store.put_trigger(schedule(scene, "new"), expected=0)
        scene.clock.advance(60.0)

        await fire(scene)

        rows = await scene.store.list_runs(RunFilter())
        tags = {msgspec.json.decode(row.tags)["schedule"]: row.version for row in rows}
        assert tags == {"old": "1", "new": "2"}

    @pytest.mark.req("T1", "K46")
    @checked
    async def test_a_schedule_starts_runs_of_its_own_workspace(self, scene: Scene) -> None:
        await scene.store.put_definitions([ORDER, replace(ORDER, workspace="acme", version="9")])
        await scene.store.put_trigger(schedule(scene, workspace="acme"), expected=0)
        scene.clock.advance(60.0)

        await fire(scene)

        assert await keys(scene) == []
        [run] = await scene.store.list_runs(RunFilter(workspace="acme"))
        assert (run.version, run.status) == ("9", Status.PENDING)
        assert await scene.store.find_run("acme", run.key) == RunId(run.id)

    @pytest.mark.req("T3")
    @checked
    async def test_only_triggers_of_the_wanted_type_and_match_fire(self, scene: Scene) -> None:
        await scene.store.put_definitions([ORDER])
        await scene.store.put_trigger(schedule(scene), expected=0)
        for name in ("a", "b"):
            row = schedule(scene, name, type="trigger", match=f"source:{name}", slot=None)
            await scene.store.put_trigger(row, expected=0)
        scene.clock.advance(60.0)
        seen: list[str] = []

        def leave(due: Sequence[DueTrigger], now: float) -> list[Firing]:
            seen.extend(each.trigger.name for each in due)
            return [Firing(each.trigger, (), None, now + 9.0, b'{"lease":"x"}', "") for each in due]

        fired = await scene.store.fire_due(leave, type="trigger", match="source:b")
        again = await scene.store.fire_due(leave, type="trigger", match="source:b")
        other = await scene.store.fire_due(leave, type="trigger", match="source:a")

        assert seen == ["b", "a"]
        assert (fired.triggers, fired.next_in, again.triggers, other.triggers) == (1, 9.0, 0, 1)
        assert (await fire(scene)).triggers == 1

    @pytest.mark.req("T3")
    @checked
    async def test_a_trigger_advances_only_from_the_state_that_was_read(self, scene: Scene) -> None:
        await scene.store.put_definitions([ORDER])
        await scene.store.put_trigger(schedule(scene), expected=0)
        before = await read(scene)
        run = runs_of(scene).run(before, ORDER, scene.clock(), run_id=RunId("a" * 32), key="k")
        mine = Firing(before, [run], None, 7.0, b'{"cursor":1}', run.id)
        theirs = Firing(before, [replace(run, key="other")], None, 8.0, b'{"cursor":2}', run.id)

        assert await scene.store.advance_trigger(mine, before=before.state)
        assert not await scene.store.advance_trigger(theirs, before=before.state)
        assert await scene.store.advance_trigger(mine, before=before.state)  # repeated: its answer was lost
        after = await read(scene)
        assert (after.slot, after.next_at, after.state, after.last_run) == (
            None,
            7.0,
            b'{"cursor":1}',
            run.id,
        )
        assert await keys(scene) == ["k"]
        assert await scene.store.drop_trigger("default", "schedule", "nightly")
        assert not await scene.store.advance_trigger(theirs, before=after.state)

    @pytest.mark.req("T3")
    @checked
    async def test_a_paused_trigger_does_not_advance_until_it_is_resumed(self, scene: Scene) -> None:
        await scene.store.put_definitions([ORDER])
        await scene.store.put_trigger(schedule(scene), expected=0)
        before = await read(scene)
        run = runs_of(scene).run(before, ORDER, scene.clock(), run_id=RunId("a" * 32), key="k")
        news = Firing(before, [run], None, 7.0, b'{"cursor":1}', run.id)
        same = Firing(before, [], None, 9.0, before.state, "")
        paused = replace(before, paused=b"{}", next_at=None, revision=2)
        assert await scene.store.put_trigger(paused, expected=1)

        assert not await scene.store.advance_trigger(news, before=before.state)
        assert not await scene.store.advance_trigger(same, before=before.state)
        assert (await read(scene)).next_at is None
        assert await keys(scene) == []

        assert await scene.store.put_trigger(replace(before, revision=3), expected=2)
        assert await scene.store.advance_trigger(news, before=before.state)
        assert await keys(scene) == ["k"]

    @pytest.mark.req("N2", "N3", "N4")
    @checked
    async def test_those_that_a_workflow_declares_are_listed_together(self, scene: Scene) -> None:
        for type, name, origin in (("webhook", "b", "g"), ("schedule", "a", "g"), ("schedule", "c", "h")):
            row = schedule(scene, name, type=type, origin=origin, id=f"{type}-{name}")
            await scene.store.put_trigger(row, expected=0)
        await scene.store.put_trigger(schedule(scene, "d", workspace="acme", origin="g"), expected=0)

        rows = await scene.store.list_triggers(TriggerFilter(origin="g"))

        assert [(row.type, row.name) for row in rows] == [("schedule", "a"), ("webhook", "b")]
