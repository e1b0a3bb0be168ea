"""Retention: what ended long ago is removed, tree by tree, while work goes on; nothing that lives is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell import Context, Engine, RunHandle, Settings, workflow
from stepwell.domain.commit import RunFilter
from stepwell.domain.fork.run_copy import RunCopy
from stepwell.domain.ids import RunId
from stepwell.domain.status import Status
from stepwell.engine.worker.retention import Retention
from stepwell.errors import RunNotFound, SettingsInvalid
from stepwell.store.base import PURGE_PAGE
from stepwell.store.memory import MemoryStore
from stepwell.testing.clock import FakeClock
from tests.engines import SETTINGS, Engines, suspended, until

DAY = 86_400.0
OLD_TREES, LIVE_TREES, YOUNG_TREES = 10_000, 100, 50
CHUNK = 500


async def add(n: int) -> int:
    return n + 1


@workflow
async def little(ctx: Context, n: int) -> int:
    return await ctx.step(add, n)


@workflow
async def waiting(ctx: Context, n: int) -> int:
    return n + await ctx.signal("go", int)


@workflow
async def family(ctx: Context, n: int) -> int:
    await ctx.start(little, n, detached=True)
    return await ctx.run(little, n)


@workflow
async def waiting_family(ctx: Context, n: int) -> int:
    await ctx.run(little, n)
    return await ctx.run(waiting, n)


def aged(copy: RunCopy, seconds: float, **changes: Any) -> RunCopy:
    """The same run, so many seconds earlier."""

    def earlier(at: float | None) -> float | None:
        return None if at is None else at - seconds

    return replace(
        copy,
        **{
            "created_at": copy.created_at - seconds,
            "started_at": earlier(copy.started_at),
            "ended_at": earlier(copy.ended_at),
            "log": [row._replace(at=row.at - seconds) for row in copy.log],
            **changes,
        },
    )


async def copies_of(engine: Engine, run: RunHandle[Any], count: int, age: float, letter: str) -> set[str]:
    """So many trees like this one, of that age, with ids that sort by it; all their ids."""
    tree = list(await engine.store.read_tree(run.id))
    made: set[str] = set()
    batch: list[RunCopy] = []
    for number in range(count):
        names = {copy.id: RunId(f"{letter}{number:06d}{i}") for i, copy in enumerate(tree)}
        root = names[tree[0].id]
        batch += [
            aged(
                copy,
                age,
                id=names[copy.id],
                key=f"key/{names[copy.id]}",
                parent=names.get(RunId(copy.parent), ""),
                root=root,
            )
            for copy in tree
        ]
        made |= set(names.values())
        if len(batch) >= CHUNK or number == count - 1:
            assert all(started.created for started in await engine.store.restore(batch))
            batch = []
    return made


async def all_ids(engine: Engine) -> set[str]:
    return {row.id for row in await engine.store.list_runs(RunFilter(limit=100_000))}


@pytest.mark.slow
@pytest.mark.req("K29")
async def test_exactly_the_old_finished_trees_go_while_load_runs(durable_engines: Engines) -> None:
    async with durable_engines.new(family, little, waiting, waiting_family) as engine:
        ended, alone, live = (
            await engine.start(family, 1),
            await engine.start(little, 1),
            await engine.start(waiting_family, 1),
        )
        assert [await ended.result(), await alone.result()] == [2, 2]
        await suspended(live)
        # ids are ordered by birth: 00.. is long ago, 01.. (of today's clock) now
        old = await copies_of(engine, alone, OLD_TREES - 1000, 3 * DAY, "00a")
        old |= await copies_of(engine, ended, 1000, 3 * DAY, "00b")
        lives = await copies_of(engine, live, LIVE_TREES, 3 * DAY, "00c")
        young = await copies_of(engine, ended, YOUNG_TREES, DAY / 2, "00d")
        before = await all_ids(engine)
        stop = asyncio.Event()

        async def load() -> list[str]:
            ids: list[str] = []
            while not stop.is_set():
                runs = await engine.start_many(little, range(20))
                assert [await run.result(30) for run in runs] == list(range(1, 21))
                ids += [run.id for run in runs]
            return ids

        async with asyncio.TaskGroup() as group:
            loading = group.create_task(load())
            sweeps = [group.create_task(Retention(engine.store, keep_seconds=DAY).sweep()) for _ in range(2)]
            removed = [await sweep for sweep in sweeps]
            stop.set()

        fresh = set(loading.result())
        assert sum(removed) == len(old)
        assert await all_ids(engine) - fresh == before - old
        assert fresh <= await all_ids(engine)
        assert lives | young <= await all_ids(engine)
        for run_id in lives:
            assert [row async for row in engine.handle(run_id).log()]


@pytest.mark.req("K29")
async def test_a_worker_removes_what_is_older_than_its_setting(engines: Engines) -> None:
    keep = Settings(
        lease_seconds=30,
        heartbeat_seconds=3,
        reap_seconds=1,
        keep_lease_seconds=0.001,
        keep_ended_seconds=0.2,
    )

    async with engines.new(little, waiting, settings=keep) as engine:
        run, other = await engine.start(little, 1), await engine.start(waiting, 1)
        await run.result()
        await suspended(other)

        async def gone() -> bool:
            return [row.id for row in await engine.runs()] == [other.id]

        await until(gone)
        with pytest.raises(RunNotFound):
            await run.info()
        await other.signal("go", 1)
        assert await other.result() == 2


@pytest.mark.req("K29", "K15")
async def test_a_sweep_removes_all_events_that_are_old() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    async with Engine(store, workflows=[little], settings=SETTINGS) as engine:
        for number in range(PURGE_PAGE + 1):
            await engine.emit("news", number)
        await until(lambda: not store._tickets)  # everybody was told
    clock.advance(3 * DAY)

    await Retention(store, keep_seconds=2 * DAY).sweep()

    assert not await store.published("news", "", since=0.0)


@pytest.mark.req("K29", "K18")
async def test_a_detached_child_is_its_own_tree(engines: Engines) -> None:
    async with engines.new(family, little) as engine:
        run = await engine.start(family, 1)
        await run.result()

        async def ended() -> bool:
            return len(await engine.runs(status=Status.COMPLETED)) == 3

        await until(ended)
        [detached] = [row.id for row in await engine.runs() if row.id != run.id and not row.parent]
        await run.delete()

        assert await all_ids(engine) == {detached}


@pytest.mark.req("K29")
async def test_nothing_is_removed_unless_it_is_asked_for(memory_engines: Engines) -> None:
    assert SETTINGS.keep_ended_seconds is None
    assert Settings.from_env({"STEPWELL_KEEP_ENDED_SECONDS": "60"}).keep_ended_seconds == 60
    with pytest.raises(SettingsInvalid):
        Settings(keep_ended_seconds=0)


@pytest.mark.req("K29", "R7")
async def test_a_store_that_is_away_is_no_harm(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepwell import failpoints

    async with memory_engines.new(little) as engine:
        await (await engine.start(little, 1)).result()
        monkeypatch.setattr(failpoints, "hit", failpoints.parse("purge.before=raise"))

        assert await Retention(engine.store, keep_seconds=1e-9).sweep() == 0
        monkeypatch.setattr(failpoints, "hit", None)
        assert await Retention(engine.store, keep_seconds=1e-9).sweep() == 1
