"""What operators ask of a database: size, soundness, backups, pruning, upgrades."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from stepwell import Context, Engine, step, workflow
from stepwell.client import database
from stepwell.errors import InvalidInput, InvalidRequest, StoreUnusable
from stepwell.store.open import open_store, upgrade
from stepwell.store.sqlite import database_file
from tests.engines import Engines, suspended

pytestmark = pytest.mark.req("C1")


@step
async def double(n: int) -> int:
    print("doubling")
    return 2 * n


@workflow
async def asks(ctx: Context, n: int) -> int:
    doubled = await ctx.step(double, n)
    return doubled if n < 0 else await ctx.signal("go", int)


async def fill(engine: Engine) -> list[Any]:
    ended = await engine.start(asks, -1)
    await ended
    waits = await engine.start(asks, 1)
    await suspended(waits)
    return [ended, waits]


async def test_it_says_what_it_holds(engines: Engines) -> None:
    async with engines.new(asks) as engine:
        runs = await fill(engine)
        held = await database.info(engine.store)
        events = sum([len([e async for e in run.events()]) for run in runs])

    assert held.schema == held.newest
    assert (held.bytes > 0) is (engines.kind != "memory")
    assert not held.encoded
    counts = dict(held.counts)
    assert (counts["runs"], counts["unfinished runs"], counts["definitions"]) == (2, 1, 1)
    assert (counts["events"], counts["log lines of steps"]) == (events, 2)


async def test_a_sound_database_has_no_faults(engines: Engines) -> None:
    async with engines.new(asks) as engine:
        await fill(engine)

        assert await database.check(engine.store) == []


DAMAGE = {
    "DELETE FROM events WHERE seq = 2 AND run_id = '{ended}'": ("ended", "its log has"),
    "UPDATE tickets SET head = 99 WHERE run_id = '{waits}'": ("waits", "says that the log ends at 99"),
    "DELETE FROM tickets WHERE run_id = '{waits}'": ("waits", "it is suspended but has no ticket"),
    "INSERT INTO waits (run_id, path, kind, name, key, since) VALUES ('lost', 'p', 'event', 'n', '', 0)": (
        "lost",
        "there is no such run, but it has waits",
    ),
}


@pytest.mark.parametrize("statement", DAMAGE, ids=lambda text: text.split(" WHERE")[0][:30])
async def test_damage_is_named_with_its_run(durable_engines: Engines, statement: str) -> None:
    async with durable_engines.new(asks) as engine:
        ended, waits = await fill(engine)
    ids = {"ended": ended.id, "waits": waits.id, "lost": "lost"}
    text = statement.format(**ids)
    if durable_engines.kind == "sqlite":
        connection = apsw.Connection(str(durable_engines.database))
        connection.execute(text)
        connection.close()
    else:
        await in_postgres(str(durable_engines.database), text)

    async with durable_engines.client() as client:
        faults = await database.check(client.store)

    which, said = DAMAGE[statement]
    assert [fault.run for fault in faults] == [ids[which]]
    assert said in faults[0].text


async def in_postgres(url: str, text: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    for table in ("events", "tickets", "waits"):
        text = text.replace(f" {table} ", f" stepwell.{table} ")
    await connection.execute(text)
    await connection.close()


async def test_a_file_is_backed_up_while_it_is_in_use(sqlite: Engines, tmp_path: Path) -> None:
    async with sqlite.new(asks) as engine:
        _, waits = await fill(engine)
        size = await database.back_up(engine.store, tmp_path / "backup.db")
        await waits.signal("go", 5)
        assert await waits.result(timeout=30) == 5
        with pytest.raises(InvalidInput, match="exists"):
            await database.back_up(engine.store, tmp_path / "backup.db")

    async with Engine(tmp_path / "backup.db", workflows=[asks]) as restored:
        assert await database.check(restored.store) == []
        run = restored.handle(waits.id)
        await run.signal("go", 7)
        assert await run.result(timeout=30) == 7
    assert size > 0


async def test_a_backup_that_cannot_be_written_says_so(sqlite: Engines, tmp_path: Path) -> None:
    async with sqlite.new(asks) as engine:
        with pytest.raises(StoreUnusable, match="the backup cannot be written"):
            await database.back_up(engine.store, tmp_path / "nowhere" / "backup.db")


async def test_postgres_is_backed_up_by_its_own_tools(postgres: Engines, tmp_path: Path) -> None:
    async with postgres.client() as client:
        with pytest.raises(InvalidRequest) as refused:
            await database.back_up(client.store, tmp_path / "backup.db")

    assert "pg_dump" in refused.value.hint


@pytest.mark.req("K29")
async def test_old_runs_are_pruned_with_progress(engines: Engines) -> None:
    said: list[database.Pruned] = []
    async with engines.new(asks) as engine:
        ended, waits = await fill(engine)
        kept = await database.prune(engine.store, older_than="1d")
        gone = await database.prune(engine.store, older_than=0, progress=said.append)
        held = await database.info(engine.store)

        assert await waits.status() == "suspended"
    assert (kept.runs, gone.runs) == (0, 1)
    assert said[-1] == gone
    assert held.counts["runs"] == 1
    assert ended.id != waits.id


async def test_an_old_database_is_upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "app.db"
    newest = database_file.migrations()[-1][0]
    with monkeypatch.context() as earlier:
        steps = database_file.migrations()[:-1]
        earlier.setattr(database_file, "migrations", lambda: steps)
        store = open_store(path)
        await store.open()
        await store.close()

    first, second = await upgrade(path), await upgrade(path)

    assert first == (newest - 1, newest)
    assert second == (newest, newest)


async def test_a_new_database_is_created_by_an_upgrade(postgres_url: str, tmp_path: Path) -> None:
    for place in (postgres_url, str(tmp_path / "app.db")):
        upgraded = await upgrade(place)
        assert upgraded.before == 0
        assert upgraded.after > 0
        assert (await upgrade(place)).before == upgraded.after
