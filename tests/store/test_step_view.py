"""step_view: what a run's steps came to, for people who ask in SQL."""

from __future__ import annotations

from typing import Any

import apsw
import asyncpg
import pytest

from stepwell import Context, Retry, RunHandle, StepContext, step, workflow
from tests.engines import Engines


@step(retry=Retry(attempts=2, delay=0.01))
async def flaky(ctx: StepContext, number: int) -> int:
    if ctx.attempt == 1:
        raise ValueError("not yet")
    return number


@workflow
async def kid(ctx: Context, number: int) -> int:
    raise ValueError("never")


@workflow
async def asks(ctx: Context, number: int) -> int:
    await ctx.step(flaky, number)
    await ctx.sleep(0.01)
    try:
        await ctx.run(kid, 1)
    except Exception:
        return await ctx.signal("go", int)
    return 0


async def rows(engines: Engines, run: RunHandle[Any]) -> list[tuple[Any, ...]]:
    asked = "SELECT path, status, attempts FROM {} WHERE run_id = {} ORDER BY seq"
    place = str(engines.database)
    if engines.kind == "sqlite":
        connection = apsw.Connection(place.removeprefix("sqlite:///"))
        try:
            return connection.execute(asked.format("step_view", "?"), (run.id,)).fetchall()
        finally:
            connection.close()
    server = await asyncpg.connect(place)
    try:
        return [tuple(row) for row in await server.fetch(asked.format("stepwell.step_view", "$1"), run.id)]
    finally:
        await server.close()


@workflow
async def left(ctx: Context, number: int) -> int:
    await ctx.start(kid, 1, detached=True)
    return await ctx.signal("go", int)


@pytest.mark.req("K38")
async def test_nothing_waits_in_a_run_that_has_ended(durable_engines: Engines) -> None:
    async with durable_engines.new(left, kid) as engine:
        run = await engine.start(left, 7)
        await run.waiting_for("go")
        assert [row[1] for row in await rows(durable_engines, run)] == ["completed", "waiting"]
        await run.cancel(force=True)
        assert [row[1] for row in await rows(durable_engines, run)] == ["completed", "cancelled"]
        assert [entry.status for entry in await run.trace()] == ["completed", "cancelled"]


@pytest.mark.req("K38")
async def test_every_step_has_a_row_with_its_status(durable_engines: Engines) -> None:
    async with durable_engines.new(asks, kid) as engine:
        run = await engine.start(asks, 7)
        await run.waiting_for("go")
        seen = await rows(durable_engines, run)
        assert [(row[1], row[2]) for row in seen] == [
            ("completed", 2),
            ("completed", 0),
            ("failed", 0),
            ("waiting", 0),
        ]
        await run.signal("go", 1)
        await run.result()
        assert (await rows(durable_engines, run))[-1] == ("0/signal:go#1", "completed", 0)
