"""An idle engine leaves the database alone; what becomes due is still on time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Engine, Settings, workflow
from tests.stage import Stage, suspended

WATCHED = ("claim", "heartbeat", "reap", "commit", "read_run", "read_log", "read_inbox", "published", "now")


@workflow
async def waits(ctx: Context) -> str:
    return str(await ctx.signal("go"))


class Counted:
    """A store that counts what it is asked."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in WATCHED:
            self.calls.append(name)
        return getattr(self._store, name)


@pytest.mark.req("K31")
@pytest.mark.slow
async def test_idle_engine_asks_less_than_once_a_second(disk: Stage) -> None:
    from stepwell.store.open import open_store

    store = Counted(open_store(str(disk.database)))
    engine = Engine(store, workflows=[waits], settings=Settings())
    async with engine:
        run = await engine.start(waits)
        await suspended(run)
        await asyncio.sleep(0.3)
        store.calls.clear()
        await asyncio.sleep(5)
        asked = list(store.calls)
        await run.signal("go", 1)
        await run.result()

    assert len(asked) < 5, asked


@pytest.mark.req("K31", "K8")
async def test_work_started_by_another_engine_is_heard_of_at_once(disk: Stage) -> None:
    async with disk.engine(waits, settings=Settings()), disk.client() as client:
        await asyncio.sleep(0.2)
        best = 10.0
        for _ in range(5):
            began = asyncio.get_running_loop().time()
            run = await client.start("waits")
            await run.signal("go", 1)
            assert await run.result(10) == "1"
            best = min(best, asyncio.get_running_loop().time() - began)

    assert best < 1.0
