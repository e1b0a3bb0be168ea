"""Rules of transact: the user's writes and the step's event together, or neither."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell.domain.commit import Commit, Committed, Outcome
from stepwell.domain.ids import LeaseId
from stepwell.testing.stores.scene import Scene, checked


async def transact(scene: Scene, body: Callable[[Any], Any], turn: Callable[[Any], Commit]) -> Committed:
    """Call with plain functions if the store wants them, else with coroutines."""
    if scene.store.sync_transactions:
        return await scene.store.transact(body, turn)

    async def awaited(connection: Any) -> Any:
        return body(connection)

    async def turned(result: Any) -> Commit:
        return turn(result)

    both: tuple[Callable[[Any], Awaitable[Any]], Callable[[Any], Awaitable[Commit]]] = (awaited, turned)
    return await scene.store.transact(*both)


class TransactRules:
    @pytest.mark.req("K14")
    @checked
    async def test_turn_gets_the_result_and_its_commit_is_written(self, scene: Scene) -> None:
        claim = await scene.begun()

        committed = await transact(
            scene, lambda _: b"42", lambda result: scene.member(claim, scene.done("tx", result))
        )

        rows = await scene.log(claim.run_id)
        assert committed == Committed(Outcome.OK, 0, scene.clock())
        assert (rows[-1].seq, rows[-1].payload) == (3, scene.done("tx", b"42").payload)
        assert (await scene.ticket(claim.run_id)).head == 3

    @pytest.mark.req("K14", "K3")
    @checked
    async def test_without_the_lease_nothing_is_written(self, scene: Scene) -> None:
        claim = await scene.begun()
        before = await scene.everything()

        committed = await transact(
            scene, lambda _: None, lambda _: scene.member(claim, scene.done("tx"), lease=LeaseId("stale"))
        )

        assert committed.outcome is Outcome.LOST
        assert await scene.everything() == before

    @pytest.mark.req("K14")
    @checked
    async def test_an_error_of_the_body_is_raised_and_nothing_written(self, scene: Scene) -> None:
        claim = await scene.begun()
        before = await scene.everything()
        turns: list[str] = []

        def body(_: object) -> None:
            raise ZeroDivisionError("in the user's code")

        def turn(_: object) -> Commit:
            turns.append("taken")
            return scene.member(claim, scene.done("tx"))

        with pytest.raises(ZeroDivisionError, match="in the user's code"):
            await transact(scene, body, turn)

        assert turns == []
        assert await scene.everything() == before
        await scene.ok(scene.member(claim, scene.done("after")))

    @pytest.mark.req("K14")
    @checked
    async def test_sent_again_it_is_recognised(self, scene: Scene) -> None:
        claim = await scene.begun()
        commit = scene.member(claim, scene.done("tx"))
        await transact(scene, lambda _: None, lambda _: commit)

        again = await transact(scene, lambda _: None, lambda _: commit)

        assert again.outcome is Outcome.OK
        assert len(await scene.log(claim.run_id)) == 3
