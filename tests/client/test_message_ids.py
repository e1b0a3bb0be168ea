"""The id of a message: it counts once, and for one message only."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from stepwell import Context, workflow
from stepwell.domain.ids import RunId
from stepwell.errors import MessageConflict
from tests.engines import SETTINGS, Engines, suspended, until


@workflow
async def taking(ctx: Context, count: int) -> list[object]:
    return [await ctx.signal("word") for _ in range(count)]


@pytest.mark.req("X9", "K9")
async def test_the_same_id_with_another_payload_is_refused_before_and_after_it_is_taken(
    engines: Engines,
) -> None:
    """BI-S03, on each store and however fast the worker is."""
    async with engines.new(taking, settings=SETTINGS) as engine:
        run = await engine.start(taking, 2)
        await suspended(run)
        await run.hold()
        await until(lambda: _is_held(run))
        await run.signal("word", {"a": 1}, id="one")
        await run.signal("word", {"a": 1}, id="one")
        with pytest.raises(MessageConflict, match="one"):
            await run.signal("word", {"a": 2}, id="one")
        with pytest.raises(MessageConflict):
            await run.signal("other", {"a": 1}, id="one")
        await run.release()
        await until(lambda: _has_taken(engine, run.id))
        await run.signal("word", {"a": 1}, id="one")
        with pytest.raises(MessageConflict):
            await run.signal("word", {"a": 2}, id="one")
        await run.signal("word", 3)

        assert await run.result() == [{"a": 1}, 3]


@pytest.mark.req("X9", "K11")
async def test_an_event_for_one_run_is_not_confused_with_another_of_its_id(engines: Engines) -> None:
    async with engines.new(taking, settings=SETTINGS) as engine:
        run = await engine.start(taking, 1)
        await suspended(run)

        assert await run.event("paid", 7, key="order-1", id="e1")
        await until(lambda: _has_taken(engine, run.id))
        assert not await run.event("paid", 7, key="order-1", id="e1")
        for payload, key in ((8, "order-1"), (7, "order-2")):
            with pytest.raises(MessageConflict):
                await run.event("paid", payload, key=key, id="e1")
        with pytest.raises(MessageConflict):
            await run.signal("word", id="e1")
        await run.signal("word", 1)
        assert await run.result() == [1]


async def test_of_two_senders_with_one_id_exactly_one_is_refused(engines: Engines) -> None:
    async with engines.new(taking, settings=SETTINGS) as engine:
        run = await engine.start(taking, 21)
        refused = 0
        for n in range(20):
            sent = [run.signal("word", (n, who), id=f"m{n}") for who in range(2)]
            answers = await asyncio.gather(*sent, return_exceptions=True)
            refused += sum(isinstance(answer, MessageConflict) for answer in answers)
            assert {type(answer) for answer in answers} <= {type(None), MessageConflict}
        await run.signal("word", "end")
        words = await run.result()

    assert refused == 20
    assert sorted(word[0] for word in cast(list[Any], words)[:-1]) == list(range(20))


async def _is_held(run: object) -> bool:
    return bool((await run.info()).held)  # type: ignore[attr-defined]


async def _has_taken(engine: object, run_id: str) -> bool:
    rows = await engine.store.read_log(RunId(run_id), kinds=["received"])  # type: ignore[attr-defined]
    return bool(rows)
