"""Moving everything from SQLite to PostgreSQL, with a real kill in the middle."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from stepwell import Engine, RunHandle
from stepwell.domain.access import AuditEntry, Credential
from stepwell.domain.status import Status
from stepwell.errors import RecordExists, SettingsInvalid, StoreMoved, StoreUnavailable, StoreUnusable
from stepwell.store.move import LARGE_TABLES, NOT_MOVED, RUN_TABLES, WHOLE_TABLES
from stepwell.store.open import move
from stepwell.store.payloads import Encryption
from stepwell.store.sqlite.store import SqliteStore
from stepwell.testing.stores.secrets import stored
from tests.engines import SETTINGS, until
from tests.faults.moving_work import Order, double, function, graph

pytestmark = pytest.mark.req("K30")

STYLES: tuple[Any, ...] = (function, Order, "graph")


def engine_on(database: Any, **options: Any) -> Engine:
    options.setdefault("settings", SETTINGS)
    return Engine(database, workflows=[function, Order, graph()], steps=[double], **options)


def client_on(database: Any, **options: Any) -> Engine:
    return Engine(database, worker=False, **options)


def input_of(style: Any, n: int) -> Any:
    return {"n": n} if style == "graph" else n


async def start(engine: Engine, style: Any, numbers: range) -> list[RunHandle[Any]]:
    return list(
        await engine.start_many(
            style, [input_of(style, n) for n in numbers], keys=[f"{style}/{n}" for n in numbers]
        )
    )


async def has_status(run: RunHandle[Any], status: Status) -> bool:
    return await run.status() is status


async def all_are(runs: list[RunHandle[Any]], status: Status) -> None:
    for run in runs:
        await until(partial(has_status, run, status), seconds=120)


async def fill(path: Path, finished: int, unfinished: int) -> tuple[list[str], list[tuple[int, str]]]:
    """Make runs of all styles; the ids of those that ended, and style and id of those that wait."""
    ended: list[str] = []
    open_: list[tuple[int, str]] = []
    async with engine_on(path) as engine:
        for i, style in enumerate(STYLES):
            done = await start(engine, style, range(-1, -1 - finished // 3 - (i < finished % 3), -1))
            waits = await start(engine, style, range(unfinished // 3 + (i < unfinished % 3)))
            await all_are(done, Status.COMPLETED)
            await all_are(waits, Status.SUSPENDED)
            ended += [run.id for run in done]
            open_ += [(i, run.id) for run in waits]
    return ended, open_


async def finish(engine: Engine, style: int, run_id: str) -> Any:
    run = engine.handle(run_id)
    if style == 0:
        await run.signal("go", 1)
    elif style == 1:
        await run.trigger("pay", 5)
    else:
        await run.decide("approved", by="ann")
        await run.decide("approved", by="bob")
    return await run.result(timeout=120)


async def mover(source: Path, target: str, stop_at: int = 0) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.moving_work", str(source), target, str(stop_at)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )


async def refuses(open_it: Callable[[], Awaitable[Any]], *words: str) -> None:
    with pytest.raises(StoreMoved) as refused:
        await open_it()
    for word in words:
        assert word in str(refused.value)


async def opened(engine: Engine) -> None:
    async with engine:
        pass


@pytest.mark.slow
async def test_all_runs_continue_on_postgres_after_a_kill_in_the_middle(
    tmp_path: Path, postgres_url: str
) -> None:
    source = tmp_path / "app.db"
    ended, waiting = await fill(source, finished=1000, unfinished=200)
    async with client_on(source) as engine:
        before = {
            run_id: await engine.handle(run_id).info() for run_id in (*ended, *(id for _, id in waiting))
        }
        logs = {run_id: [row async for row in engine.handle(run_id).log()] for run_id in ended[::50]}
        lines = await engine.handle(ended[0]).logs()

    process = await mover(source, postgres_url, stop_at=400)
    assert process.stdout is not None
    while b"400 " not in await process.stdout.readline():
        pass
    process.send_signal(signal.SIGKILL)
    assert await process.wait() == -signal.SIGKILL
    await refuses(lambda: opened(client_on(source)), "on its way to", "stepwell move")
    await refuses(lambda: opened(client_on(postgres_url)), "is being filled from", str(source))

    process = await mover(source, postgres_url)
    output, _ = await process.communicate()
    said = output.decode().splitlines()

    assert process.returncode == 0
    assert said[0] == "400 1200"
    assert (json.loads(said[-1])["runs"], json.loads(said[-1])["unfinished"]) == (1200, 200)
    await refuses(lambda: opened(client_on(source)), "has moved to postgresql://")
    async with engine_on(postgres_url) as engine:
        for run_id, row in before.items():
            assert await engine.handle(run_id).info() == row
        for run_id, log in logs.items():
            assert [row async for row in engine.handle(run_id).log()] == log
        assert await engine.handle(ended[0]).logs() == lines
        results = [await finish(engine, style, run_id) for style, run_id in waiting]
        new = await engine.start(function, -1)
        assert (await new.info()).number == 1 + max(
            r.number for r in before.values() if r.workflow == "function"
        )
        again = await engine.start(function, -1, key=f"{function}/-1")
    assert len(results) == 200
    assert again.id in ended


async def test_definitions_limits_keys_audit_events_and_messages_are_carried(
    tmp_path: Path, postgres_url: str
) -> None:
    source = tmp_path / "app.db"
    await fill(source, finished=3, unfinished=3)
    async with client_on(source) as engine:
        await engine.set_limit("workflow", "function", 2, by="ann")
        await engine.set_start_rate("user", 1000, by="ann")
        await engine.disable("Order", by="bob", reason="too slow")
        await engine.emit("paid", {"n": 1}, key="a")
        key = Credential(id="k1", kind="key", name="ann", digest="d", scopes=("read",), roles=("größe",))
        await engine.store.put_credential(key)
        await engine.store.put_secret(stored(hosts=("größe.example",)))
        entry: dict[str, Any] = {"at": 1.0, "workspace": "default", "by": "ann", "action": "x", "path": "/"}
        await engine.store.add_audit(
            [AuditEntry(id="a1", **entry, status=200, credential="k1", address="::1")]
        )
        told = await facts(engine)

    await move(source, postgres_url)

    async with client_on(postgres_url) as engine:
        assert await facts(engine) == told
        await engine.emit("paid", {"n": 2}, key="a")
        events = await engine.store.published("paid", "a", since=0.0)
    assert [event.payload for event in events] == [b'{"n":1}', b'{"n":2}']


async def facts(engine: Engine) -> Any:
    store = engine.store
    return (
        [definition.content for definition in await store.list_definitions("default")],
        await store.read_limits(),
        await store.read_start_rates(),
        await store.list_switches("default"),
        await store.list_credentials("default", "key"),
        await store.list_audit("default"),
        await store.list_secrets("default"),
    )


async def test_an_encrypted_database_stays_encrypted(tmp_path: Path, postgres_url: str) -> None:
    codec = Encryption({"k1": b"k" * 32}, current="k1")
    async with engine_on(tmp_path / "app.db", codec=codec) as engine:
        run = await engine.start(function, -4)
        await run

    await move(tmp_path / "app.db", postgres_url)

    async with client_on(postgres_url, codec=codec) as engine:
        assert await engine.handle(run.id).result() == -8
    with pytest.raises(StoreUnusable):
        await opened(client_on(postgres_url))


async def test_runs_of_a_killed_worker_go_on(tmp_path: Path, postgres_url: str) -> None:
    """Their tickets are still leased in the file."""
    source = tmp_path / "app.db"
    _, [(_, run_id)] = await fill(source, finished=0, unfinished=1)
    connection = apsw.Connection(str(source))
    connection.execute("UPDATE tickets SET owner = 'w1', lease = 'l1'")
    connection.close()

    await move(source, postgres_url)

    async with engine_on(postgres_url) as engine:
        assert await finish(engine, 0, run_id) == 1
        kinds = [event.kind async for event in engine.handle(run_id).events()]
    assert "lease_lost" in kinds


async def test_a_file_that_is_in_use_is_not_moved(tmp_path: Path, postgres_url: str) -> None:
    source = tmp_path / "app.db"
    script = f"""
import asyncio
from stepwell import Engine
async def main():
    async with Engine({str(source)!r}, worker=False):
        print("open", flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    with pytest.raises(StoreUnavailable, match="a process has the database open"):
        await move(source, postgres_url)
    process.kill()
    await process.wait()

    await opened(client_on(source))


async def test_a_target_that_is_in_use_is_refused_and_the_source_stays(
    tmp_path: Path, postgres_url: str
) -> None:
    source = tmp_path / "app.db"
    await fill(source, finished=0, unfinished=1)
    async with client_on(postgres_url) as engine:
        await engine.set_limit("workflow", "other", 3)

    with pytest.raises(StoreUnusable, match="the target is in use: it has limits"):
        await move(source, postgres_url)

    await opened(client_on(source))
    assert (await move(source, f"{postgres_url}?schema=moved_here")).unfinished == 1


async def test_a_move_that_is_complete_is_repeated_without_effect(tmp_path: Path, postgres_url: str) -> None:
    source = tmp_path / "app.db"
    _, [(_, run_id)] = await fill(source, finished=0, unfinished=1)
    await move(source, postgres_url)
    async with engine_on(postgres_url) as engine:
        assert await finish(engine, 0, run_id) == 1

    again = await move(source, postgres_url)

    async with client_on(postgres_url) as engine:
        assert await engine.handle(run_id).result() == 1
    assert again.repeated
    with pytest.raises(StoreMoved, match=r"on its way to|has moved"):
        await move(source, f"{postgres_url}?schema=elsewhere")


async def test_wrong_places_are_refused(tmp_path: Path, postgres_url: str) -> None:
    with pytest.raises(SettingsInvalid, match="the target is"):
        await move(tmp_path / "app.db", "other.db")
    with pytest.raises(SettingsInvalid, match="the source is"):
        await move(postgres_url, postgres_url)
    with pytest.raises(StoreUnusable, match="there is no such file"):
        await move(tmp_path / "none.db", postgres_url)
    with pytest.raises(StoreUnusable, match="there is no such file"):
        await move(tmp_path / "none.db", postgres_url)  # nor did that make one


@pytest.mark.req("N24")
async def test_records_are_carried_with_what_they_are_found_by(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.store.move.ROWS_AT_ONCE", 3)
    path = tmp_path / "app.db"
    async with engine_on(path) as engine:
        await engine.records.define("people", schema={"type": "object"}, key="name", find=["city"])
        for number in range(8):
            data = {"name": f"n{number}", "city": ("Rome", "Bonn")[number % 2]}
            await engine.records.create("people", data)
        before = list(await engine.records.find("people"))

    await move(path, postgres_url)

    async with client_on(postgres_url) as client:
        info = await client.records.collection("people")
        assert (info.records, info.key, info.find) == (8, "name", ("city",))
        assert list(await client.records.find("people")) == before
        rome = await client.records.find("people", {"city": "Rome"})
        assert [record.data["name"] for record in rome] == ["n0", "n2", "n4", "n6"]
        assert await client.records.get("people", key="n5") == before[5]
        with pytest.raises(RecordExists):
            await client.records.create("people", {"name": "n5"})


async def test_every_table_is_moved_or_has_a_reason(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "app.db")
    await store.open()
    await store.close()
    connection = apsw.Connection(str(tmp_path / "app.db"))
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    connection.close()

    tables = {str(name) for (name,) in rows if not str(name).startswith("sqlite")}

    assert tables - {"runs", *RUN_TABLES, *WHOLE_TABLES, *LARGE_TABLES, *NOT_MOVED} == set()
