"""Broadcast events reach every run with a matching wait, once, and none is lost on the way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, failpoints, workflow
from stepwell.domain.status import Status
from stepwell.errors import WaitTimedOut
from tests.engines import Engines, all_events, crash, kinds, suspended, until


@workflow
async def listens(ctx: Context, key: str) -> Any:
    return await ctx.event("news", key=key)


@pytest.mark.req("K17")
async def test_event_reaches_every_waiting_run_once(engines: Engines) -> None:
    async with engines.new(listens) as engine:
        runs = [await engine.start(listens, "") for _ in range(20)]
        for run in runs:
            await suspended(run)

        assert await engine.emit("news", {"n": 1}) is True

        assert [await run.result() for run in runs] == [{"n": 1}] * 20
        assert [e.kind for e in await all_events(runs[0])].count("received") == 1


@pytest.mark.req("K17", "K6")
async def test_event_of_one_id_is_published_once(engines: Engines) -> None:
    @workflow
    async def twice(ctx: Context) -> list[Any]:
        return [await ctx.event("news"), await ctx.event("news")]

    async with engines.new(twice) as engine:
        run = await engine.start(twice)
        await suspended(run)
        assert await engine.emit("news", 1, id="e1") is True
        assert await engine.emit("news", 1, id="e1") is False
        await until_received(run, 1)
        assert await engine.emit("news", 1, id="e1") is False
        assert await engine.emit("news", 2, id="e2") is True

        assert await run.result() == [1, 2]


@pytest.mark.req("K17", "F11")
async def test_event_that_does_not_fit_is_set_aside_and_the_wait_goes_on(engines: Engines) -> None:
    @workflow
    async def typed(ctx: Context) -> list[int]:
        first = await ctx.event("count", int)
        await ctx.signal("go")
        return [first, await ctx.event("count", int)]

    async with engines.new(typed) as engine:
        run = await engine.start(typed)
        await suspended(run)
        await engine.emit("count", "three")
        await until(lambda: _why(run, "the last message does not fit"))
        await engine.emit("count", 3)
        await until_received(run, 1)
        await engine.emit("count", "four")  # nobody waits for these two: they are looked for later
        await engine.emit("count", 4)
        await run.signal("go")

        assert await run.result() == [3, 4]
        assert len([e for e in await all_events(run) if e.data.get("rejected")]) == 2


async def _why(run: Any, text: str) -> bool:
    return text in (await run.why()).text


async def until_received(run: Any, count: int) -> None:
    async def there() -> bool:
        return (await kinds(run)).count("wait_ended") >= count

    await until(there)


@pytest.mark.req("K17")
async def test_key_selects_among_waits(engines: Engines) -> None:
    async with engines.new(listens) as engine:
        any_key, red, blue = [await engine.start(listens, key) for key in ("", "red", "blue")]
        for run in (any_key, red, blue):
            await suspended(run)

        await engine.emit("other", 0)
        await engine.emit("news", 1, key="red")

        assert await any_key.result() == 1
        assert await red.result() == 1
        assert await blue.status() is Status.SUSPENDED
        await engine.emit("news", 2, key="blue")
        assert await blue.result() == 2


@pytest.mark.req("K17")
async def test_earlier_events_do_not_count(engines: Engines) -> None:
    @workflow
    async def hears(ctx: Context) -> str:
        await ctx.step(str, 1)
        try:
            return str(await ctx.event("news", timeout=0.3))
        except WaitTimedOut:
            return "nothing"

    async with engines.new(hears) as engine:
        await engine.emit("news", "old")

        assert await (await engine.start(hears)).result() == "nothing"


@pytest.mark.req("K17")
async def test_event_since_the_last_checkpoint_counts_even_before_the_wait(engines: Engines) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    async def ask() -> str:
        begun.set()
        await gate.wait()
        return "asked"

    @workflow
    async def hears(ctx: Context) -> list[Any]:
        asked, answer = await asyncio.gather(ctx.step(ask), ctx.event("answer", timeout=10))
        return [asked, answer]

    async with engines.new(hears) as engine:
        run = await engine.start(hears)
        await begun.wait()
        await engine.emit("answer", 42)
        gate.set()

        assert await run.result() == ["asked", 42]


@pytest.mark.req("K17")
async def test_no_event_is_lost_between_waiting_and_parking(engines: Engines) -> None:
    """Emitted at every moment of a run's life after its first event: each run hears exactly one."""

    @workflow
    async def hears(ctx: Context, n: int) -> Any:
        return await ctx.event(f"answer-{n}")

    count = 40
    async with engines.new(hears) as engine, engines.client() as other:

        async def one(n: int) -> Any:
            run = await engine.start(hears, n)

            async def taken() -> bool:
                return await run.status() is not Status.PENDING

            await until(taken)
            if n % 3:
                await asyncio.sleep(0.0005 * n)
            await (other if n % 2 else engine).emit(f"answer-{n}", n)
            return await run.result(20)

        assert await asyncio.gather(*(one(n) for n in range(count))) == list(range(count))


@pytest.mark.req("K17")
async def test_event_that_comes_while_another_is_taken_is_heard_by_the_next_wait(engines: Engines) -> None:
    """Both were meant for the first wait; the second was published since the run's last event."""

    @workflow
    async def collects(ctx: Context) -> list[Any]:
        return [await ctx.event("tick", timeout=10) for _ in range(2)]

    async with engines.new(collects) as engine:
        run = await engine.start(collects)
        await suspended(run)
        assert engine.worker is not None
    async with engines.client() as client:
        await client.emit("tick", 0)
        await client.emit("tick", 1)
    async with engines.new(collects) as engine:
        assert sorted(await engine.handle(run.id).result(20)) == [0, 1]


@pytest.mark.req("K17")
@pytest.mark.parametrize("count", [2, 5])
async def test_waits_in_one_run_take_one_event_of_a_burst_each(engines: Engines, count: int) -> None:
    @workflow
    async def crowd(ctx: Context) -> list[Any]:
        return await ctx.all(*(ctx.event("tick", timeout=20) for _ in range(count)))

    async with engines.new(crowd) as engine:
        run = await engine.start(crowd)
        await suspended(run)
        await asyncio.gather(*(engine.emit("tick", n) for n in range(count)))

        assert sorted(await run.result(20)) == list(range(count))


@pytest.mark.req("K17")
async def test_burst_that_comes_while_nobody_works_goes_to_the_open_waits(engines: Engines) -> None:
    @workflow
    async def crowd(ctx: Context) -> list[Any]:
        return await ctx.all(*(ctx.event("tick", timeout=30) for _ in range(5)))

    async with engines.new(crowd) as engine:
        run = await engine.start(crowd)
        await suspended(run)
    async with engines.client() as client:
        for n in range(5):
            await client.emit("tick", n)
    async with engines.new(crowd) as engine:
        assert sorted(await engine.handle(run.id).result(20)) == list(range(5))


@pytest.mark.req("K17")
async def test_event_goes_to_the_earliest_wait_only(engines: Engines) -> None:
    @workflow
    async def pair(ctx: Context) -> list[Any]:
        async def second() -> Any:
            try:
                return await ctx.event("tick", timeout=0.4)
            except WaitTimedOut:
                return "nothing"

        return list(await asyncio.gather(ctx.event("tick"), second()))

    async with engines.new(pair) as engine:
        run = await engine.start(pair)
        await suspended(run)
        await engine.emit("tick", 1)

        assert await run.result() == [1, "nothing"]


@pytest.mark.req("K17", "K4")
async def test_event_emitted_while_nobody_works_is_heard_on_return(engines: Engines) -> None:
    async with engines.new(listens) as engine:
        run = await engine.start(listens, "")
        await suspended(run)
    async with engines.client() as client:
        await client.emit("news", "while you slept")
    async with engines.new(listens) as engine:
        assert await engine.handle(run.id).result(15) == "while you slept"


@pytest.mark.req("K17", "K4")
async def test_event_survives_a_crash_of_the_waiting_worker(engines: Engines) -> None:
    dying = engines.new(listens)
    await dying.open()
    run = await dying.start(listens, "")
    await suspended(run)
    await crash(dying)
    async with engines.client() as client:
        await client.emit("news", 7)
    async with engines.new(listens) as engine:
        assert await engine.handle(run.id).result(15) == 7


@pytest.mark.req("K17", "R2")
@pytest.mark.parametrize("point", ["fan_out.before", "fan_out.mid", "fan_out.ambiguous", "emit.ambiguous"])
async def test_fault_while_fanning_out_loses_nothing(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    async with engines.new(listens) as engine:
        run = await engine.start(listens, "")
        await suspended(run)
        monkeypatch.setattr(failpoints, "hit", failpoints.parse(f"{point}=raise"))

        await engine.emit("news", 1)

        assert await run.result(10) == 1


@pytest.mark.req("K17", "F3")
async def test_event_is_heard_by_a_replayed_run(replayed_engines: Engines) -> None:
    @workflow
    async def hears(ctx: Context) -> list[Any]:
        first = await ctx.event("news", key="a")
        await ctx.step(str, first)
        return [first, await ctx.event("news", key="b")]

    async with replayed_engines.new(hears) as engine:
        run = await engine.start(hears)
        await suspended(run)
        await engine.emit("news", 1, key="a")
        await until_received(run, 1)
        await suspended(run)
        await engine.emit("news", 2, key="b")

        assert await run.result() == [1, 2]
