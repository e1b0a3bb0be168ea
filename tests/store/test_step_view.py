"""The views of runs, steps and events, for people who ask in SQL."""

from __future__ import annotations

import re
from typing import Any

import apsw
import asyncpg
import pytest

from stepwell import Context, Retry, RunHandle, StepContext, step, workflow
from stepwell.store.payloads import Encryption
from tests.architecture.sources import ROOT
from tests.engines import Engines, suspended


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


async def asked(engines: Engines, query: str, run: RunHandle[Any]) -> list[dict[str, Any]]:
    """Ask as the documentation does: `{}` stands for the schema, `?` for the run's id."""
    place = str(engines.database)
    if engines.kind == "sqlite":
        connection = apsw.Connection(place.removeprefix("sqlite:///"))
        try:
            cursor = connection.execute(query.format(""), (run.id,))
            names = [column[0] for column in cursor.get_description()]
            return [dict(zip(names, row, strict=True)) for row in cursor]
        finally:
            connection.close()
    server = await asyncpg.connect(place)
    try:
        return [dict(row) for row in await server.fetch(query.format("stepwell.").replace("?", "$1"), run.id)]
    finally:
        await server.close()


async def rows(engines: Engines, run: RunHandle[Any]) -> list[tuple[Any, ...]]:
    query = "SELECT path, status, attempts FROM {}step_view WHERE run_id = ? ORDER BY seq"
    return [tuple(row.values()) for row in await asked(engines, query, run)]


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


VIEW = re.compile(r"^\| `(\w+_view)` \| ([^|]+) \|", re.MULTILINE)


@pytest.mark.req("K38")
async def test_the_views_have_the_columns_that_the_documentation_names(durable_engines: Engines) -> None:
    page = (ROOT / "docs" / "runs.md").read_text(encoding="utf-8")
    told = {view: re.findall(r"`(\w+)`", columns) for view, columns in VIEW.findall(page)}
    keys = {"run_view": "id", "step_view": "run_id", "event_view": "run_id"}
    async with durable_engines.new(left, kid) as engine:
        run = await engine.start(left, 7)
        await run.waiting_for("go")
        there = {
            view: list((await asked(durable_engines, f"SELECT * FROM {{}}{view} WHERE {key} = ?", run))[0])
            for view, key in keys.items()
        }

    assert told == there


@pytest.mark.req("K38", "K39")
async def test_the_row_of_a_run_says_that_it_is_held(durable_engines: Engines) -> None:
    query = "SELECT status, held, due_at, queue, worker FROM {}run_view WHERE id = ?"
    async with durable_engines.new(left, kid) as engine:
        run = await engine.start(left, 7)
        await suspended(run)
        [before] = await asked(durable_engines, query, run)
        await run.hold()
        [held] = await asked(durable_engines, query, run)

    assert list(before.values()) == ["suspended", False, None, "default", None]
    assert list(held.values()) == ["suspended", True, None, "default", None]


@pytest.mark.req("K38", "K42")
async def test_steps_of_an_encrypted_database_are_listed(durable_engines: Engines) -> None:
    codec = Encryption({"a": b"k" * 32}, current="a")
    async with durable_engines.new(asks, kid, codec=codec) as engine:
        run = await engine.start(asks, 7)
        await run.waiting_for("go")
        await run.signal("go", 1)
        await run.result()
        statuses = [row[1] for row in await rows(durable_engines, run)]

    assert statuses == ["completed", "completed", "ended", "completed"]
