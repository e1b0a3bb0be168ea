"""A database of an earlier version: this one migrates it, and its runs continue."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from stepwell import Context, Engine, RunHandle, workflow
from stepwell.domain.commit import PublishedEvent
from stepwell.domain.limits import Limit
from stepwell.domain.rates import Full, RatedStart, Window
from stepwell.store.memory import MemoryStore
from stepwell.store.postgres import migrate
from stepwell.store.postgres.store import PostgresStore
from stepwell.store.sqlite import database_file
from stepwell.store.sqlite.store import SqliteStore
from stepwell.testing.clock import FakeClock
from stepwell.testing.stores.limits import lane
from stepwell.testing.stores.scene import Scene
from tests.engines import SETTINGS, suspended
from tests.store.old_database import write_runs

Store = SqliteStore | PostgresStore
MIGRATIONS: dict[str, tuple[Any, Callable[[], Any]]] = {
    "sqlite": (database_file, database_file.migrations),
    "postgres": (migrate, migrate.migrations),
}


@pytest.mark.req("R8", "K19", "K20")
@pytest.mark.parametrize("kind", MIGRATIONS)
async def test_runs_that_wait_since_before_limits_were_shared_go_on(
    kind: str, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    module, migrations = MIGRATIONS[kind]

    def make() -> Store:
        if kind == "sqlite":
            return SqliteStore(tmp_path / "app.db", clock=clock.time)
        return PostgresStore(postgres_url, clock=clock.time)

    monkeypatch.setattr(module, "migrations", lambda: migrations()[:2])
    old = make()
    await old.open(encoded=True)  # the older version looks for no codec
    await old.close()
    scene = Scene(MemoryStore(clock.time), clock)
    waiting = [await scene.start(lane=text) for text in ("", lane(1), lane(1), "")]
    copies = [copy for run_id in waiting for copy in await scene.store.read_tree(run_id)]
    await write_runs(kind, str(tmp_path / "app.db") if kind == "sqlite" else postgres_url, copies)
    monkeypatch.setattr(module, "migrations", migrations)

    store = make()
    await store.open()
    try:
        scene = Scene(store, clock)
        scene._count = 100
        worker = await scene.worker()
        first = await scene.claimed_ids(worker)
        await store.put_limit(Limit(kind="queue", name="default", limit=3))
        window = Window("workflow default/order", 1, 60.0)
        answers = [await store.start_within(RatedStart([scene.new_run()], [window])) for _ in range(2)]
        blocked = await scene.claims(worker)
    finally:
        await store.close()

    assert first == [waiting[0], waiting[1], waiting[3]]
    assert (list(blocked.claims), blocked.blocked) == ([], True)
    assert [isinstance(answer, Full) for answer in answers] == [False, True]


BEFORE_ORDER = {"sqlite": 6, "postgres": 5}  # migrations
TIED = """
INSERT INTO {schema}published_events (id, name, key, payload, at)
VALUES ('e2', 'paid', 'k', {one}, 5.0), ('e1', 'paid', 'k', {one}, 5.0), ('e3', 'paid', 'k', {one}, 5.0)
"""


@pytest.mark.req("K35")
@pytest.mark.parametrize("kind", MIGRATIONS)
async def test_events_of_one_moment_from_before_they_had_an_order_get_one(
    kind: str, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    module, migrations = MIGRATIONS[kind]

    def make() -> Store:
        if kind == "sqlite":
            return SqliteStore(tmp_path / "app.db", clock=clock.time)
        return PostgresStore(postgres_url, clock=clock.time)

    monkeypatch.setattr(module, "migrations", lambda: migrations()[: BEFORE_ORDER[kind]])
    old = make()
    await old.open(encoded=True)  # the older version looks for no codec
    await old.close()
    if kind == "sqlite":
        connection = apsw.Connection(str(tmp_path / "app.db"))
        connection.execute(TIED.format(schema="", one="x'31'"))
        connection.close()
    else:
        connected = await asyncpg.connect(postgres_url)
        await connected.execute(TIED.format(schema="stepwell.", one="'1'"))
        await connected.close()
    monkeypatch.setattr(module, "migrations", migrations)

    store = make()
    await store.open()
    try:
        await store.emit(PublishedEvent("e0", "paid", "k", b"4", 0.0))
        events = await store.published("paid", "k", since=0.0)
    finally:
        await store.close()

    assert [event.id for event in events] == ["e1", "e2", "e3", "e0"]
    assert len({event.at for event in events}) == 4


BEFORE_WHO = {"sqlite": 9, "postgres": 8}  # migrations
WAIT = """
INSERT INTO {schema}waits (run_id, path, kind, name, key, since)
VALUES ('r0002', 'w#1', 'event', 'paid', '', 0.0)
"""
DEFINED = """
INSERT INTO {schema}definitions (workspace, name, version, kind, hash, body, input_schema, options)
VALUES ('default', 'order', '1', 'function', 'h', {empty}, {empty}, {empty})
"""


@pytest.mark.req("R8", "K38")
@pytest.mark.parametrize("kind", MIGRATIONS)
async def test_runs_of_a_database_without_numbers_count_and_their_waits_get_their_workspace(
    kind: str, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    module, migrations = MIGRATIONS[kind]
    place = str(tmp_path / "app.db") if kind == "sqlite" else postgres_url

    def make() -> Store:
        if kind == "sqlite":
            return SqliteStore(place, clock=clock.time)
        return PostgresStore(place, clock=clock.time)

    monkeypatch.setattr(module, "migrations", lambda: migrations()[: BEFORE_WHO[kind]])
    old = make()
    await old.open(encoded=True)
    await old.close()
    scene = Scene(MemoryStore(clock.time), clock)
    before = [await scene.start(), await scene.start(workspace="acme"), await scene.start()]
    await write_runs(kind, place, [copy for run in before for copy in await scene.store.read_tree(run)])
    await _execute(kind, place, WAIT, DEFINED)
    monkeypatch.setattr(module, "migrations", migrations)

    store = make()
    await store.open()
    try:
        scene = Scene(store, clock)
        scene._count = 100
        new = [await scene.run(await scene.start()), await scene.run(await scene.start(workspace="acme"))]
        old_rows = [await scene.run(run) for run in before]
        [copy] = await store.read_tree(before[1])
        definition = await store.read_definition("default", "order")
    finally:
        await store.close()

    assert [row.number for row in old_rows] == [0, 0, 0]
    assert [row.number for row in new] == [3, 2]
    assert [wait.workspace for wait in copy.waits] == ["acme"]
    assert definition is not None
    assert (definition.title, definition.created_at, definition.created_by) == ("", 0.0, "")


BEFORE_LISTS = {"sqlite": 15, "postgres": 14}  # migrations


@workflow
async def listening(ctx: Context, seconds: float) -> list[Any]:
    """The first one was answered, the second one is open."""
    return [await ctx.signal("ready"), await ctx.signal("go", timeout=seconds)]


@pytest.mark.req("R8", "K40")
@pytest.mark.parametrize("kind", MIGRATIONS)
async def test_runs_from_before_there_were_lists_are_found_by_their_tags_and_signals(
    kind: str, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, migrations = MIGRATIONS[kind]
    place = str(tmp_path / "app.db") if kind == "sqlite" else postgres_url
    monkeypatch.setattr(module, "migrations", lambda: migrations()[: BEFORE_LISTS[kind]])
    old = SqliteStore(place) if kind == "sqlite" else PostgresStore(place)
    await old.open(encoded=True)  # the older version looks for no codec
    await old.close()
    tags = {"customer": "7", "word": 'quo"te / \\ \n é'}
    async with Engine(MemoryStore(time.time), workflows=[listening], settings=SETTINGS) as engine:
        run = await engine.start(listening, 3600.0, tags=tags)
        await run.signal("ready", 1)
        opened = await run.waiting_for("go")
        await suspended(run)
        copies = list(await engine.store.read_tree(run.id))
    await write_runs(kind, place, copies)
    monkeypatch.setattr(module, "migrations", migrations)

    async with Engine(place, workflows=[listening], settings=SETTINGS) as engine:
        for name, value in tags.items():
            assert [row.id for row in await engine.runs(tags={name: value})] == [run.id]
        [wait] = await engine.waits()
        assert (wait.run, wait.path, wait.what, wait.name) == (run.id, opened.path, "signal", "go")
        assert wait.due_at == opened.due_at
        assert wait.opened_at == pytest.approx(time.time(), abs=60)
        again: RunHandle[list[int]] = engine.handle(run.id)
        await again.signal("go", 2)
        assert await again.result(timeout=30) == [1, 2]
        assert await engine.waits() == []


async def _execute(kind: str, place: str, *statements: str) -> None:
    if kind == "sqlite":
        connection = apsw.Connection(place)
        for statement in statements:
            connection.execute(statement.format(schema="", empty="x'7b7d'"))
        connection.close()
        return
    connected = await asyncpg.connect(place)
    for statement in statements:
        await connected.execute(statement.format(schema="stepwell.", empty="'{}'"))
    await connected.close()
