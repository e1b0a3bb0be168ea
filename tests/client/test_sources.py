"""Sources: types of triggers of a program; what they find starts one run each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stepwell import Context, Source, SourceEvent, source, workflow
from stepwell.errors import InvalidDefinition, InvalidInput
from tests.engines import DEAF, SHORT_LEASE, Engines, until


@workflow
async def answer(ctx: Context, letter: str) -> str:
    return f"re: {letter}"


def numbers(asked: list[Any], looking: Counter[str]) -> Source:
    @source(every=0.1)
    async def inbox(config: dict[str, int], cursor: int | None) -> list[SourceEvent]:
        looking["now"] += 1
        looking["most"] = max(looking["most"], looking["now"])
        asked.append(cursor)
        await asyncio.sleep(0.02)
        first = cursor or 0
        found = range(max(0, first - 1), min(first + 3, config["last"]))  # the last one again
        looking["now"] -= 1
        return [SourceEvent(f"m{n}", f"letter {n}", cursor=n + 1) for n in found]

    return inbox


@pytest.mark.req("T3")
async def test_each_event_of_a_source_starts_one_run_though_several_workers_could(
    engines: Engines,
) -> None:
    asked: list[Any] = []
    looking: Counter[str] = Counter()
    inbox = numbers(asked, looking)
    one, two = engines.new(answer, sources=[inbox]), engines.new(answer, sources=[inbox])
    async with one, two:
        await one.triggers.create("mail", answer, source="inbox", config={"last": 7})

        async def all_there() -> Any:
            rows = await one.runs(trigger="inbox", status="completed")
            return rows if len(rows) >= 7 else None

        rows = await until(all_there)
        times = len(asked)
        await until(lambda: len(asked) >= times + 2)  # it finds the last one again
        again = await one.runs(trigger="inbox")
        info = await one.triggers.get("mail")
        results = sorted([await one.handle(row.id).result() for row in rows])

    assert results == [f"re: letter {n}" for n in range(7)]
    assert len(again) == 7
    assert (info.failures, info.refused, looking["most"]) == (0, 0, 1)
    assert asked[0] is None
    assert asked[-1] == 7


@pytest.mark.req("T3")
async def test_a_generator_is_a_source_and_its_failures_show(engines: Engines) -> None:
    @source(every=0.05)
    async def ticks(config: None, cursor: int | None) -> AsyncIterator[SourceEvent]:
        for n in range(cursor or 0, 3):
            yield SourceEvent(str(n), f"t{n}", cursor=n + 1)
            if n == 1 and cursor is None:
                raise ConnectionError("the line is dead")

    async with engines.new(answer, sources=[ticks]) as engine:
        await engine.triggers.create("clock", answer, source="ticks")
        await until(lambda: _completed(engine, 2))
        await until(lambda: _completed(engine, 3))
        info = await engine.triggers.get("clock")

    assert info.started == 3


async def _completed(engine: Any, count: int, of: str = "ticks") -> bool:
    return len(await engine.runs(trigger=of, status="completed")) >= count


@pytest.mark.req("T3")
async def test_a_source_is_asked_as_often_as_it_says_however_rarely_a_worker_polls(engines: Engines) -> None:
    asked: list[None] = []

    @source(every=0.05)
    async def beat(config: None, cursor: None) -> list[SourceEvent]:
        asked.append(cursor)
        return []

    async with engines.new(answer, sources=[beat], settings=DEAF) as engine:
        await engine.triggers.create("pulse", answer, source="beat")
        await until(lambda: len(asked) >= 3)


@pytest.mark.req("T3")
async def test_a_source_that_is_paused_while_it_is_asked_starts_nothing_more(engines: Engines) -> None:
    asked: list[int | None] = []
    go_on, left = asyncio.Event(), asyncio.Event()

    @source(every=0.05)
    async def post(config: None, cursor: int | None) -> AsyncIterator[SourceEvent]:
        asked.append(cursor)
        try:
            await go_on.wait()
            for n in range(cursor or 0, 2):
                yield SourceEvent(str(n), f"p{n}", cursor=n + 1)
        finally:
            left.set()

    async with engines.new(answer, sources=[post]) as engine:
        await engine.triggers.create("box", answer, source="post")
        await until(lambda: asked)
        assert await engine.triggers.pause("box")
        go_on.set()
        await until(left.is_set)
        paused = await engine.triggers.get("box")
        before = await engine.runs(trigger="post")
        assert await engine.triggers.resume("box")
        await until(lambda: _completed(engine, 2, of="post"))

    assert (paused.next_at, paused.started, paused.failures) == (None, 0, 0)
    assert list(before) == []
    assert asked[:2] == [None, None]


@pytest.mark.req("T3")
async def test_a_source_is_left_alone_once_it_is_paused(engines: Engines) -> None:
    asked: list[str] = []

    @source(every=0.05)
    async def endless(config: None, cursor: None) -> list[SourceEvent]:
        asked.append("asked")
        try:
            await asyncio.Event().wait()
        finally:
            asked.append("left")
        return []

    async with engines.new(answer, sources=[endless], settings=SHORT_LEASE) as engine:
        await engine.triggers.create("box", answer, source="endless")
        await until(lambda: asked == ["asked"])
        assert await engine.triggers.pause("box")
        await until(lambda: asked == ["asked", "left"])


@pytest.mark.req("T3")
async def test_wrong_sources_and_configs_are_refused(memory_engines: Engines) -> None:
    with pytest.raises(InvalidDefinition, match=r"\(config, cursor\)"):

        @source
        async def nothing() -> list[SourceEvent]:
            return []

    inbox = numbers([], Counter())
    async with memory_engines.new(answer, sources=[inbox], worker=False) as engine:
        with pytest.raises(InvalidInput, match="config of source inbox"):
            await engine.triggers.create("a", answer, source="inbox", config={"last": "x"})
        with pytest.raises(InvalidInput, match="no source 'inbx'") as unknown:
            await engine.triggers.create("a", answer, source="inbx")

    assert "inbox" in unknown.value.hint
