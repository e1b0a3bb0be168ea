"""An idle engine leaves the database alone; what becomes due is still on time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from stepwell import Context, Settings, workflow
from stepwell.store.postgres import wakeups
from stepwell.store.postgres.pool import connection
from stepwell.store.sqlite import database_file
from tests.engines import Engines, suspended

FASTER = 10  # ten idle seconds in one
IDLE_SECONDS = 3.0


@workflow
async def waits(ctx: Context) -> str:
    return str(await ctx.signal("go"))


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that any connection of a store sends from now on, BEGIN and COMMIT too."""
    sent: list[str] = []

    def traced(opened: Any) -> Any:
        def note(cursor: Any, sql: str, values: Any) -> bool:
            sent.append(sql)
            return True

        opened.exec_trace = note
        return opened

    open_writer, open_reader, connect = (
        database_file.open_writer,
        database_file.open_reader,
        connection.connect,
    )

    async def logged(*of: Any) -> Any:
        connected = await connect(*of)
        connected.add_query_logger(lambda query: sent.append(query.query))
        return connected

    monkeypatch.setattr(database_file, "open_writer", lambda path: traced(open_writer(path)))
    monkeypatch.setattr(database_file, "open_reader", lambda path: traced(open_reader(path)))
    monkeypatch.setattr(connection, "connect", logged)
    monkeypatch.setattr(wakeups, "connect", logged)
    monkeypatch.setattr(wakeups, "CHECK_SECONDS", wakeups.CHECK_SECONDS / FASTER)
    return sent


def faster(settings: Settings) -> Settings:
    """All that happens by itself happens more often; the lease need not be shorter for that."""
    return replace(
        settings,
        heartbeat_seconds=settings.heartbeat_seconds / FASTER,
        reap_seconds=settings.reap_seconds / FASTER,
        poll_seconds=settings.poll_seconds / FASTER,
    )


@pytest.mark.req("K31")
@pytest.mark.slow
async def test_idle_engine_sends_less_than_one_statement_a_second(
    durable_engines: Engines, statements: list[str]
) -> None:
    async with durable_engines.new(waits, settings=faster(Settings())) as engine:
        run = await engine.start(waits)
        await suspended(run)
        await asyncio.sleep(0.3)
        statements.clear()
        await asyncio.sleep(IDLE_SECONDS)
        sent = list(statements)
        await run.signal("go", 1)
        assert await run.result() == "1"

    assert len(statements) > len(sent)  # or nobody counted
    assert 0 < len(sent) < IDLE_SECONDS * FASTER, [text[:60] for text in sent]


@pytest.mark.req("K31", "K8")
async def test_work_started_by_another_engine_is_heard_of_at_once(durable_engines: Engines) -> None:
    async with durable_engines.new(waits, settings=Settings()), durable_engines.client() as client:
        await asyncio.sleep(0.2)
        best = 10.0
        for _ in range(5):
            began = asyncio.get_running_loop().time()
            run = await client.start("waits")
            await run.signal("go", 1)
            assert await run.result(10) == "1"
            best = min(best, asyncio.get_running_loop().time() - began)

    assert best < 1.0
