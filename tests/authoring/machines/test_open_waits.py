"""Transitions whose code changed while they wait: an accepted decision is used or kept, never discarded."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, Machine, RunFailed, step, transition
from tests.engines import Engines, all_events, suspended

CHARGED: list[str] = []


@step
async def fee(who: str) -> str:
    CHARGED.append(who)
    return who


def review(*, change: str = "", form: Any = str) -> type[Machine[Any]]:
    class Review(Machine[list[str]], name="review"):
        @transition("start", "end")
        async def check(self, ctx: Context) -> None:
            if change == "inserts" or (change == "patches" and ctx.patched("fee")):
                await ctx.step(fee, "new")
            if change != "removes":
                self.state.append(await ctx.approval(form))
            if change == "patches behind" and ctx.patched("behind"):
                await ctx.step(fee, "behind")

    return Review


async def waiting(engines: Engines) -> str:
    CHARGED.clear()
    async with engines.new(review()) as engine:
        run = await engine.start("review")
        await suspended(run)
    return run.id


@pytest.mark.req("K36", "M3")
@pytest.mark.parametrize(
    ("change", "charged"), [("patches", []), ("patches behind", ["behind"]), ("inserts", ["new"])]
)
async def test_a_decision_reaches_the_changed_code(engines: Engines, change: str, charged: list[str]) -> None:
    """A transition does not replay: a step that is new is done wherever it stands, `patched` keeps it out."""
    run_id = await waiting(engines)
    async with engines.new(review(change=change)) as engine:
        run = engine.handle(run_id)
        await run.decide("yes", by="ana")

        assert await run.result(30) == ["yes"]
    assert charged == CHARGED


@pytest.mark.req("K36", "M3", "K11")
@pytest.mark.parametrize("changed", [{"change": "removes"}, {"form": int}], ids=["removed", "form"])
async def test_a_decision_that_the_changed_code_does_not_take_is_kept(
    engines: Engines, changed: dict[str, Any]
) -> None:
    run_id = await waiting(engines)
    async with engines.new(review(**changed)) as engine:
        run = engine.handle(run_id)
        await run.decide("yes", by="ana")
        for _ in range(2):  # a retry on the same code changes nothing
            with pytest.raises(RunFailed) as caught:
                await run.result(30)
            assert caught.value.cause_code == "CODE_CHANGED"
            assert "0/check@1/approval:approval#1" in str(caught.value)
            await run.retry()
        with pytest.raises(RunFailed):
            await run.result(30)
    async with engines.new(review()) as engine:
        run = engine.handle(run_id)
        await run.retry()

        assert await run.result(30) == ["yes"]
        received = [e for e in await all_events(run) if e.kind == "received"]
    assert [(e.data["by"], e.data.get("rejected", "")) for e in received] == [("ana", "")]


@pytest.mark.req("K36", "M3")
async def test_patched_is_true_in_a_transition_that_begins_and_stays_so(replayed_engines: Engines) -> None:
    async with replayed_engines.new(review(change="patches")) as engine:
        CHARGED.clear()
        run = await engine.start("review")
        await suspended(run)
        await run.decide("yes", by="ana")

        assert await run.result(30) == ["yes"]
    assert CHARGED == ["new"]
