"""Rules of holding workflows, queues and workspaces, and of test runs beside them."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.domain.commit import NewTicket, Owned, PublishedEvent
from stepwell.domain.limits import Limit
from stepwell.domain.scope_holds import HoldKind, ScopeHold
from stepwell.testing.stores.scene import NEEDS, QUEUE, Scene, checked


def scope(kind: HoldKind, name: str = "", *, held: bool = True, workspace: str = "default") -> ScopeHold:
    return ScopeHold(kind, workspace, name, held, "ann", b'"full"')


SCOPES = [scope("workspace"), scope("workflow", "order"), scope("queue", QUEUE)]
REMOTE_SCOPES = [scope("queue", "gpu"), scope("workflow", "order"), scope("workspace")]


class ScopeHoldRules:
    @pytest.mark.req("K39")
    @checked
    async def test_nothing_of_a_held_scope_is_claimed(self, scene: Scene) -> None:
        for hold in SCOPES:
            begun = await scene.suspended()
            await scene.deliver(scene.signal(begun))
            fresh = await scene.start()
            other = await scene.start(workspace="acme", workflow="pay", needs="pay@1", queue="other")

            assert await scene.store.hold_scope(hold)

            both: dict[str, Any] = {"queues": (QUEUE, "other"), "needs": (NEEDS, "pay@1")}
            assert [claim.run_id for claim in (await scene.claims("w1", **both)).claims] == [other]
            assert await scene.store.hold_scope(hold._replace(held=False, by="bob"))
            assert [claim.run_id for claim in (await scene.claims("w1", **both)).claims] == [begun, fresh]

    @pytest.mark.req("K39", "T1")
    @checked
    async def test_a_hold_stays_in_its_workspace(self, scene: Scene) -> None:
        for hold in SCOPES:
            mine, other = await scene.start(), await scene.start(workspace="acme")
            await scene.worker()
            await scene.store.hold_scope(hold._replace(workspace="acme"))

            assert await scene.claimed_ids("w1") == [mine]
            assert list(await scene.store.list_holds("default")) == []
            [listed] = [row for row in await scene.store.list_holds("acme") if row.held]
            assert listed == hold._replace(workspace="acme", at=scene.clock())
            await scene.store.hold_scope(hold._replace(workspace="acme", held=False))
            assert await scene.claimed_ids("w1") == [other]

    @pytest.mark.req("K39", "K6")
    @checked
    async def test_the_last_change_is_kept_and_a_repeat_changes_nothing(self, scene: Scene) -> None:
        hold = scope("queue", "gpu")
        assert not await scene.store.hold_scope(hold._replace(held=False)), "it was never held"
        assert list(await scene.store.list_holds("default")) == []
        assert await scene.store.hold_scope(hold)
        scene.clock.advance(5.0)

        assert not await scene.store.hold_scope(hold._replace(by="bob"))
        [listed] = await scene.store.list_holds("default")
        assert (listed.by, listed.at) == ("ann", scene.clock() - 5.0)
        assert await scene.store.hold_scope(hold._replace(held=False, by="bob"))
        assert list(await scene.store.list_holds("default")) == [
            hold._replace(held=False, by="bob", at=scene.clock())
        ]

    @pytest.mark.req("K39")
    @checked
    async def test_new_runs_of_a_held_scope_are_accepted_and_wait(self, scene: Scene) -> None:
        worker = await scene.worker()
        await scene.store.hold_scope(scope("workflow", "order"))

        [started] = await scene.store.start([scene.new_run(owner=worker, lease="mine")])

        assert started.created
        assert started.claim is None
        assert await scene.claimed_ids("w1") == []

    @pytest.mark.req("K39", "K13")
    @checked
    async def test_runs_that_clean_up_are_taken_nevertheless(self, scene: Scene) -> None:
        run_id = await scene.suspended()
        await scene.store.hold_scope(scope("workspace"))
        await scene.store.cancel(run_id, "")

        assert await scene.claimed_ids("w1") == [run_id]

    @pytest.mark.req("K39", "F6")
    @checked
    async def test_remote_steps_of_a_held_scope_wait(self, scene: Scene) -> None:
        for hold in REMOTE_SCOPES:
            claim = await scene.begun()
            ticket = NewTicket(path="a", queue="gpu", needs="step:a", seq=2)
            await scene.ok(scene.member(claim, tickets_opened=[ticket]))
            await scene.store.hold_scope(hold)

            kind: dict[str, Any] = {"queues": ("gpu",), "needs": ("step:a",)}
            assert list((await scene.claims("w1", **kind)).claims) == []
            await scene.store.hold_scope(hold._replace(held=False))
            [taken] = (await scene.claims("w1", **kind)).claims
            assert (taken.run_id, taken.path) == (claim.run_id, "a")

    @pytest.mark.req("K39")
    @checked
    async def test_a_heartbeat_shows_owners_what_is_held(self, scene: Scene) -> None:
        for hold in SCOPES:
            mine, other = await scene.begun(), await scene.begun(workspace="acme")
            ending = await scene.begun()
            await scene.store.cancel(ending.run_id, "")
            await scene.store.hold_scope(hold)

            owned = await scene.beaten("w1")

            assert {ticket for ticket in owned or () if ticket.run_id >= mine.run_id} == {
                Owned(mine.run_id, "", 0, True),
                Owned(other.run_id, "", 0),
                Owned(ending.run_id, "", 1),
            }
            await scene.store.hold_scope(hold._replace(held=False))
            assert not any(ticket.held for ticket in await scene.beaten("w1") or ())

    @pytest.mark.req("K39", "K17")
    @checked
    async def test_broadcast_events_are_handed_out_while_everything_is_held(self, scene: Scene) -> None:
        await scene.worker()
        await scene.store.hold_scope(scope("workspace"))
        await scene.store.emit(PublishedEvent("e1", "paid", "", b"1", 0.0))

        assert len(await scene.claim_events("w1")) == 1


class TestRunRules:
    @pytest.mark.req("K39", "K19")
    @checked
    async def test_test_runs_take_no_slots_and_wait_for_none(self, scene: Scene) -> None:
        await scene.store.put_limit(Limit(kind="workflow", workspace="default", name="order", limit=1))
        first, test, second = await scene.start(), await scene.start(test=True), await scene.start()
        await scene.worker()

        taken = await scene.claims("w1")

        assert {claim.run_id for claim in taken.claims} == {first, test}
        claim = next(claim for claim in taken.claims if claim.run_id == first)
        await scene.ok(scene.member(claim, scene.claimed(claim), then=scene.finish(claim)))
        assert await scene.claimed_ids("w1") == [second], "the test run, still active, has no slot"

    @pytest.mark.req("K39")
    @checked
    async def test_test_runs_can_be_held_with_their_workflow(self, scene: Scene) -> None:
        await scene.start(test=True)
        await scene.worker()
        await scene.store.hold_scope(scope("workflow", "order"))

        assert await scene.claimed_ids("w1") == []
