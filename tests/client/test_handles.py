"""Handles: following a run live, listing, awaiting, from async and from plain code."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, RunFailed, SyncClient, workflow
from stepwell.domain.status import Status
from stepwell.errors import RunNotFound
from tests.engines import Engines, suspended


@workflow
async def tells(ctx: Context, count: int) -> str:
    for n in range(count):
        ctx.publish("line", n)
        ctx.progress(n + 1, count)
        await ctx.step(str, n)
        await ctx.signal("next")
    return "told"


async def heard(run: Any, count: int) -> list[int]:
    """Follows, and lets the run go on only when the news of its last step was heard."""
    found: list[int] = []
    async for event in run.events(follow=True):
        if event.kind == "published":
            found.append(event.data.get("data"))
            await run.signal("next")
    return found


@pytest.mark.req("F12")
async def test_news_are_followed_live_until_the_end(engines: Engines) -> None:
    async with engines.new(tells) as engine:
        run = await engine.start(tells, 5)

        assert await asyncio.wait_for(heard(run, 5), 20) == [0, 1, 2, 3, 4]
        assert await run.result() == "told"


@pytest.mark.req("F12")
async def test_news_are_followed_from_another_process_soon(durable_engines: Engines) -> None:
    async with durable_engines.new(tells) as engine, durable_engines.client() as other:
        run = await engine.start(tells, 3)
        began = asyncio.get_running_loop().time()

        assert await asyncio.wait_for(heard(other.handle(run.id), 3), 20) == [0, 1, 2]

        assert asyncio.get_running_loop().time() - began < 6


@pytest.mark.req("F12")
async def test_events_can_be_read_from_any_place(memory_engines: Engines) -> None:
    async with memory_engines.new(tells) as engine:
        run = await engine.start(tells, 0)
        await run.result()
        everything = [e async for e in run.events()]

        assert [e async for e in run.events(after=1)] == everything[1:]
        assert [e async for e in run.events(after=99)] == []


@pytest.mark.req("K1")
async def test_handle_is_awaitable_and_time_limited(engines: Engines) -> None:
    @workflow
    async def waits(ctx: Context) -> str:
        return str(await ctx.signal("go"))

    async with engines.new(waits) as engine:
        run = await engine.start(waits)
        with pytest.raises(TimeoutError):
            await run.result(0.1)
        await run.signal("go", 1)
        assert await run == "1"


@pytest.mark.req("K8")
async def test_runs_are_listed_newest_first_by_status_and_workflow(engines: Engines) -> None:
    @workflow
    async def bad(ctx: Context) -> None:
        raise ValueError("bad")

    async with engines.new(tells, bad) as engine:
        good = [await engine.start(tells, 0) for _ in range(3)]
        for run in good:
            await run.result()
        failed = await engine.start(bad)
        with pytest.raises(RunFailed):
            await failed.result()
        waiting = await engine.start(tells, 1)
        await suspended(waiting)

        assert (await engine.runs())[0].id == waiting.id
        assert [row.id for row in await engine.runs(status=Status.FAILED)] == [failed.id]
        assert {row.id for row in await engine.runs(workflow="tells", status=[Status.COMPLETED])} == {
            run.id for run in good
        }
        first = await engine.runs(limit=2)
        rest = await engine.runs(before=first[-1].id)
        assert len(first) + len(rest) == 5


@pytest.mark.req("K8")
async def test_unknown_run_is_told(engines: Engines) -> None:
    async with engines.new(tells) as engine:
        nobody = engine.handle("0" * 32)
        for ask in (nobody.result, nobody.info, nobody.why, nobody.state, nobody.retry):
            with pytest.raises(RunNotFound) as caught:
                await ask()
            assert caught.value.hint


@pytest.mark.req("F1", "K8")
def test_plain_code_has_a_client(durable_engines: Engines) -> None:
    with SyncClient(engine=durable_engines.new(tells)) as client:
        run = client.start(tells, 1, key="k")
        run.signal("next", 1)
        assert run.result(10) == "told"
        assert run.status() is Status.COMPLETED
        assert next(run.events()).seq == 1
        assert run.why().code == "ended"
        assert client.handle(run.id, tells).result() == "told"
        assert [row.id for row in client.runs()] == [run.id]
        assert client.emit("x", 1, id="1") is True
    with SyncClient(str(durable_engines.database)) as client:
        assert client.handle(run.id).info().key == "k"
        assert client.start("tells", 0).cancel() is True


@pytest.mark.req("F1")
async def test_plain_client_works_inside_a_running_loop(sqlite: Engines) -> None:
    with SyncClient(engine=sqlite.new(tells)) as client:
        assert client.run(tells, 0) == "told"
