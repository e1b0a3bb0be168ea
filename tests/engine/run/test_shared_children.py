"""One child that several tasks of a run await: it is cancelled when the last of them has left, not before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Engine, RunHandle, workflow
from stepwell.domain.status import Status
from stepwell.errors import ChildFailed
from stepwell.testing import VirtualEngine, crash_everywhere
from tests.engines import DEAF, Engines, all_events, reaches, suspended, until

CANCELLED = "0/child:waits#1 failed: the child run is cancelled [CHILD_FAILED]"


@workflow
async def waits(ctx: Context, name: str) -> str:
    return f"{name}: {await ctx.signal('go')}"


@workflow
async def breaks(ctx: Context) -> None:
    await ctx.signal("go")
    raise ValueError("porcelain")


async def told(child: Any) -> str:
    try:
        return str(await child)
    except ChildFailed as error:
        return str(error)


@workflow
async def two_askers(ctx: Context, leaving: list[int]) -> list[str]:
    """Who leaves, in which order; then what each was told, and what one is told who comes later."""
    child = await ctx.start(waits, "kid")
    askers = [asyncio.create_task(told(child)), asyncio.create_task(told(child))]
    await ctx.signal("leave")
    for asker in leaving:
        askers[asker].cancel()
    await ctx.step(str, "left")  # begins when the log has all that came of their leaving
    heard = await asyncio.gather(*askers, return_exceptions=True)
    return [
        *("left" if isinstance(one, asyncio.CancelledError) else str(one) for one in heard),
        await told(child),
    ]


async def child_of(engine: Engine, run: RunHandle[Any]) -> RunHandle[Any]:
    async def there() -> Any:
        return [row for row in await engine.runs() if row.parent == run.id]

    [row] = await until(there)
    return engine.handle(row.id)


async def lets_leave(run: RunHandle[Any]) -> None:
    async def left() -> bool:
        return any(event.kind == "step_completed" for event in await all_events(run))

    await suspended(run)
    await run.signal("leave")
    await until(left)


@pytest.mark.parametrize("replays", [False, True], ids=["straight", "replayed"])
@pytest.mark.req("K18", "F2", "F4")
async def test_a_child_is_cancelled_only_when_nobody_awaits_it_any_more(
    engines: Engines, replays: bool
) -> None:
    leaving = [0], [1], [0, 1], [1, 0]
    async with engines.new(two_askers, waits, settings=DEAF, replay_always=replays) as engine:
        runs = [await engine.start(two_askers, who) for who in leaving]
        children = [await child_of(engine, run) for run in runs]
        for run, child in zip(runs, children, strict=True):
            await suspended(child)
            await lets_leave(run)
        for child in children[:2]:
            await child.signal("go", "home")

        assert await runs[0].result(30) == ["left", "kid: home", "kid: home"]
        assert await runs[1].result(30) == ["kid: home", "left", "kid: home"]
        for run, child in zip(runs[2:], children[2:], strict=True):
            assert await run.result(30) == ["left", "left", CANCELLED]
            assert await child.status() is Status.CANCELLED


@pytest.mark.req("K18", "F2")
async def test_who_stays_is_told_the_error_of_the_child_too(replayed_engines: Engines) -> None:
    @workflow
    async def parent(ctx: Context) -> list[bool]:
        child = await ctx.start(breaks, None)
        askers = [asyncio.create_task(told(child)) for _ in range(3)]
        await ctx.signal("leave")
        askers[0].cancel()
        await ctx.step(str, "left")
        return ["porcelain" in text for text in [await askers[1], await askers[2], await told(child)]]

    async with replayed_engines.new(parent, breaks) as engine:
        run = await engine.start(parent)
        child = await child_of(engine, run)
        await suspended(child)
        await lets_leave(run)
        await child.signal("go")

        assert await run.result(30) == [True, True, True]


@pytest.mark.req("K18", "F2")
async def test_the_loser_of_a_race_for_one_child_loses_nothing_for_others(replayed_engines: Engines) -> None:
    @workflow
    async def parent(ctx: Context) -> list[str]:
        child = await ctx.start(waits, "kid")
        won = await ctx.first(child.result(), child.result())
        return [won, await child]

    async with replayed_engines.new(parent, waits) as engine:
        run = await engine.start(parent)
        await suspended(run)
        await (await child_of(engine, run)).signal("go", 1)

        assert await run.result(30) == ["kid: 1", "kid: 1"]


@pytest.mark.req("K18", "F4")
async def test_everybody_who_awaits_the_child_hears_that_the_run_is_cancelled(
    replayed_engines: Engines,
) -> None:
    heard: list[str] = []

    @workflow
    async def parent(ctx: Context) -> None:
        child = await ctx.start(waits, "kid")

        async def asker(name: str) -> None:
            try:
                await child
            except BaseException as error:
                await ctx.step(heard.append, f"{name} {type(error).__name__}")
                raise

        await asyncio.gather(asker("first"), asker("second"), return_exceptions=True)

    async with replayed_engines.new(parent, waits, settings=DEAF) as engine:
        run = await engine.start(parent)
        await suspended(run)
        await run.cancel()

        await reaches(run, Status.CANCELLED)
        await reaches(await child_of(engine, run), Status.CANCELLED)
        assert sorted(heard) == ["first RunCancelling", "second RunCancelling"]


@workflow
async def sleeps(ctx: Context) -> str:
    await ctx.sleep("10s")
    return "awake"


@workflow
async def impatient(ctx: Context) -> list[str]:
    child = await ctx.start(sleeps, None)
    first, second = asyncio.create_task(told(child)), asyncio.create_task(told(child))
    await ctx.sleep("1s")
    first.cancel()
    return [await second, await told(child)]


@pytest.mark.req("K18", "K5")
async def test_a_crash_at_any_commit_leaves_the_child_to_who_still_awaits_it() -> None:
    async with VirtualEngine(impatient, sleeps) as engine:
        assert await engine.outcome(await engine.start(impatient)) == ["awake", "awake"]

    assert await crash_everywhere(impatient, also=[sleeps]) >= 8
