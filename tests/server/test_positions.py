"""Where a running run is, in a list; and how many runs there are in each part of a time."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from stepwell import Context, Retry, step, workflow
from tests.engines import Engines, until
from tests.server.served import FLOWS, served

RELEASED: list[asyncio.Event] = []  # of the test that runs


@step(retry=Retry(3, delay="10m"))
async def sync(sku: str) -> str:
    raise ConnectionError(f"no stock service for {sku}")


@step
async def render(page: int) -> int:
    await RELEASED[-1].wait()
    return page


@step(retry=Retry(3, delay="1ms"))
async def decline(order: str) -> str:
    raise RuntimeError(f"card of {order} declined")


@workflow
async def trying(ctx: Context, order: str) -> str:
    return await ctx.step(decline, order)


@workflow
async def syncing(ctx: Context, sku: str) -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.step(render, 1))
        tried = group.create_task(ctx.step(sync, sku))
    return tried.result()


@workflow
async def rendering(ctx: Context, pages: int) -> int:
    ctx.progress(46, pages, "page 47")
    return await ctx.step(render, 47)


@pytest.mark.req("S1")
async def test_a_list_says_where_a_running_run_is(engines: Engines) -> None:
    RELEASED.append(asyncio.Event())
    async with served(engines.new(rendering, syncing)) as client:
        pages, stock = await client.started("rendering", 312), await client.started("syncing", "tea")

        async def positions() -> dict[str, Any]:
            runs = (await client.get("/api/v1/runs?status=running")).json()["runs"]
            return {run["id"]: run["position"] for run in runs}

        async def known() -> bool:
            found = await positions()
            return bool(found.get(pages)) and bool(found.get(stock) and found[stock]["retry_at"])

        await until(known)
        found = await positions()
        assert (found[pages]["done"], found[pages]["total"], found[pages]["text"]) == (46, 312, "page 47")
        assert found[stock]["path"].endswith("sync#1")
        assert (found[stock]["attempt"], found[stock]["error"]) == (2, "ConnectionError")
        RELEASED[-1].set()
        ended = await client.ended(pages)
        assert ended["position"] is None


@pytest.mark.req("S1", "K28")
async def test_a_list_says_why_a_run_is_queued_who_cancelled_one_and_how_often_one_tried(
    engines: Engines,
) -> None:
    async with served(engines.new(trying, rendering)) as client:
        failed = await client.started("trying", "tea")
        later = {"workflow": "rendering", "input": 1, "delay": "1h"}
        queued, cancelled = [(await client.post("/api/v1/runs", json=later)).json()["id"] for _ in "12"]
        await client.post(f"/api/v1/runs/{cancelled}/cancel", json={"reason": "ordered twice", "by": "ana"})
        await client.ended(failed)

        runs = (await client.get("/api/v1/runs")).json()["runs"]

    found = {run["id"]: run["position"] for run in runs}
    assert (found[failed]["path"], found[failed]["attempt"]) == ("0/decline#1", 3)
    assert "delayed until" in found[queued]["text"]
    assert found[cancelled]["text"] == "by ana: ordered twice"


@pytest.mark.req("S1")
async def test_runs_are_counted_by_time_over_http(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        run = await client.ended(await client.started("doubling", 4))
        span = f"since={datetime.fromisoformat(run['created_at']).timestamp() - 60}"

        answer = await client.get(f"/api/v1/histogram?{span}&buckets=2&workflow=doubling")
        assert [bucket["statuses"] for bucket in answer.json()["buckets"]] == [{}, {"completed": 1}]
        none = await client.get(f"/api/v1/histogram?{span}&status=failed&buckets=1")
        assert none.json()["buckets"][0]["statuses"] == {}
        assert (await client.get("/api/v1/histogram")).status_code == 400
        assert (await client.get(f"/api/v1/histogram?{span}&until=1")).status_code == 422
