"""Behind a real PgBouncer in transaction mode: statements of many clients share few connections."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from stepwell import Context, StartRate, step, workflow
from stepwell.domain.status import Status
from stepwell.errors import StoreUnusable
from stepwell.store.postgres.pool.connection import ENGINE_SETTINGS
from tests.engines import SETTINGS, Engines, suspended
from tools.postgres import pooler

MANY = 12


@pytest.mark.req("K16")
@pytest.mark.parametrize("forgiving", [False, True])
async def test_a_pooler_that_nobody_told_of_is_named(postgres_url: str, forgiving: bool) -> None:
    port = urlsplit(postgres_url).port
    program = pooler.find() if urlsplit(postgres_url).hostname == "127.0.0.1" else None
    if program is None or port is None:
        pytest.skip("PgBouncer is not installed and cannot be")
    more = f"ignore_startup_parameters = {','.join(ENGINE_SETTINGS)}\n" if forgiving else ""
    with pooler.Pooler(program, port, more_settings=more) as running:
        for worker in (True, False):
            with pytest.raises(StoreUnusable, match="PgBouncer") as refused:
                async with Engines("postgres", running.url(postgres_url)).new(part, worker=worker):
                    pass
            assert "poll_only=1" in refused.value.hint


@step
async def double(number: int) -> int:
    return 2 * number


@workflow
async def part(ctx: Context, number: int) -> int:
    await ctx.sleep(0.01)
    return await ctx.step(double, number)


@workflow(concurrency=10)
async def whole(ctx: Context, number: int) -> int:
    doubled = await ctx.run(part, number)
    return doubled + int(await ctx.signal("more"))


@workflow
async def told(ctx: Context, number: int) -> int:
    news = await ctx.event("news", key=str(number))
    return int(news) + await ctx.step.on(queue="elsewhere")(double, number)


@pytest.mark.slow
@pytest.mark.req("K16", "K19", "K20")
async def test_engines_work_through_pgbouncer_in_transaction_mode(pooled: str) -> None:
    engines = Engines("postgres", pooled)
    settings = replace(SETTINGS, poll_seconds=0.2)
    options = {"settings": settings, "steps": [double], "start_rates": [StartRate("workflow", MANY)]}
    async with (
        engines.new(whole, part, told, queues=("default", "elsewhere"), **options) as one,
        engines.new(whole, part, told, **options),
        engines.new(whole, part, worker=False, **options) as client,
    ):
        assert one.store.polls
        runs = await client.start_many(whole, range(MANY // 2))
        runs += [await client.start(whole, number) for number in range(MANY // 2, MANY)]
        others = await client.start_many(told, range(MANY))
        for run in others:
            await suspended(run)
        async with asyncio.TaskGroup() as group:
            for number, run in enumerate(runs):
                group.create_task(run.signal("more", number))
                group.create_task(client.emit("news", 1, key=str(number)))

        assert [await run.result(50) for run in runs] == [3 * number for number in range(MANY)]
        assert [await run.result(50) for run in others] == [1 + 2 * number for number in range(MANY)]
        assert len(await client.runs(status=Status.COMPLETED, limit=1000)) == 3 * MANY
        assert await client.store.read_lanes() == []
