"""Steps over a set: after a restart its order is another, and each item would get another one's result."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from stepwell import Context, RunFailed, RunHandle, step, workflow
from tests.engines import Engines, all_events, suspended

done: list[str] = []


@step
async def price(sku: str) -> str:
    done.append(sku)
    return f"price of {sku}"


def quotes(*order: str, gate_after: int | None = None) -> Any:
    """A quote over the items in this order, as a set has it in one process; it waits behind some of them."""

    @workflow(name="quote")
    async def quote(ctx: Context) -> dict[str, str]:
        prices = {}
        for number, sku in enumerate(order):
            if number == (len(order) if gate_after is None else gate_after):
                await ctx.signal("go")
            prices[sku] = await ctx.step(price, sku)
        if gate_after is None:
            await ctx.signal("go")
        return prices

    return quote


async def restarted(engines: Engines, before: Any, after: Any) -> dict[str, str]:
    done.clear()
    async with engines.new(before) as engine:
        run = await engine.start(before)
        await suspended(run)
    async with engines.new(after) as engine:
        again: RunHandle[dict[str, str]] = engine.handle(run.id, after)
        await again.signal("go")
        return await again.result(30)


@pytest.mark.req("F13")
@pytest.mark.parametrize("order", ["ab dc", "ba cd", "bc da", "db ca"])
async def test_swapped_arguments_are_told_and_no_result_is_mixed_up(engines: Engines, order: str) -> None:
    with pytest.raises(RunFailed) as caught:
        await restarted(engines, quotes(*"abcd"), quotes(*order.replace(" ", "")))

    assert caught.value.cause_code == "CODE_CHANGED"
    assert "0/price#" in str(caught.value)
    assert "sorted(" in caught.value.hint
    assert done == ["a", "b", "c", "d"]


@pytest.mark.req("F13")
@pytest.mark.parametrize("order", ["cdab", "cabd", "acbd"])
async def test_also_when_only_some_of_them_were_done(memory_engines: Engines, order: str) -> None:
    """What is asked for anew at another place is not done a second time."""
    with pytest.raises(RunFailed) as caught:
        await restarted(memory_engines, quotes(*"abcd", gate_after=2), quotes(*order, gate_after=2))

    assert caught.value.cause_code == "CODE_CHANGED"
    assert done == ["a", "b"]


@pytest.mark.req("F13", "F8")
async def test_arguments_that_only_changed_keep_the_recorded_result(
    memory_engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "stepwell.engine"):
        prices = await restarted(memory_engines, quotes("a", "b"), quotes("a", "b2"))

    assert prices == {"a": "price of a", "b2": "price of b"}
    assert done == ["a", "b"]
    assert "0/price#2 was recorded with other arguments" in caplog.text


@pytest.mark.req("F13")
async def test_the_same_arguments_twice_are_no_change(memory_engines: Engines) -> None:
    prices = await restarted(memory_engines, quotes(*"abab"), quotes(*"abab"))

    assert prices == {"a": "price of a", "b": "price of b"}


@pytest.mark.req("F13", "K4")
async def test_a_log_without_digests_replays(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As versions before this one wrote it: their main task kept none."""
    with monkeypatch.context() as before:
        before.setattr("stepwell.engine.context.context.short_digest", lambda args, kwargs: "", raising=False)
        done.clear()
        async with memory_engines.new(quotes(*"abc")) as engine:
            run = await engine.start(quotes(*"abc"))
            await suspended(run)
            old = [event for event in await all_events(run) if event.kind == "step_completed"]
            assert all("digest" not in event.data for event in old)
    async with memory_engines.new(quotes(*"abc")) as engine:
        again = engine.handle(run.id)
        await again.signal("go")

        assert await again.result(30) == {one: f"price of {one}" for one in "abc"}
    assert done == ["a", "b", "c"]
