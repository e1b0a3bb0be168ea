"""Transactional steps on SQLite: on the writer's thread, with the engine's own connection."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.domain.commit import Commit, Outcome
from stepwell.domain.ids import LeaseId
from stepwell.errors import InvalidRequest, StepTimedOut, StoreUnusable
from stepwell.store.sqlite import transactions
from stepwell.store.sqlite.store import SqliteStore
from stepwell.store.sqlite.transactions import StepConnection
from stepwell.testing.clock import FakeClock
from stepwell.testing.stores.scene import Scene

Test = Callable[[Scene, SqliteStore], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Test], None]:
    """Runs a test's coroutine on an open store with a table of the user's."""

    def run(test: Test) -> None:
        async def whole() -> None:
            clock = FakeClock()
            store = SqliteStore(str(tmp_path / "app.db"), clock=clock)
            await store.open()
            scene = Scene(store, clock)
            claim = await scene.begun(id="maker")
            await store.transact(
                lambda connection: connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, what)"),
                lambda _: scene.member(claim, scene.done("make")),
            )
            try:
                await test(scene, store)
            finally:
                await store.close()

        asyncio.run(whole())

    return run


def insert(connection: StepConnection) -> int:
    connection.execute("INSERT INTO orders (what) VALUES (?)", ("tea",))
    return connection.last_insert_rowid()


async def orders(scene: Scene, store: SqliteStore) -> int:
    assert store._reader is not None
    count: int = store._reader._session.connection.execute("SELECT count(*) FROM orders").get
    return count


@pytest.mark.req("K14")
def test_the_users_write_and_the_event_are_there_together(play: Callable[[Test], None]) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        claim = await scene.begun()
        threads: list[str] = []

        def body(connection: StepConnection) -> int:
            threads.append(threading.current_thread().name)
            return insert(connection)

        committed = await store.transact(
            body, lambda result: scene.member(claim, scene.done("tx", b"%d" % result))
        )

        assert committed.outcome is Outcome.OK
        assert threads == ["stepwell-writer"]
        assert await orders(scene, store) == 1
        assert (await scene.log(claim.run_id))[-1].payload == scene.done("tx", b"1").payload

    play(test)


@pytest.mark.req("K14", "K3")
def test_without_the_lease_the_users_write_is_undone(play: Callable[[Test], None]) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        claim = await scene.begun()

        stale = scene.member(claim, scene.done("tx"), lease=LeaseId("stale"))
        committed = await store.transact(insert, lambda _: stale)
        nobody = Commit(run_id=claim.run_id, lease=LeaseId("x"), head=9, events=[scene.done("tx")])
        lost = await store.transact(insert, lambda _: nobody)

        assert (committed.outcome, lost.outcome) == (Outcome.LOST, Outcome.LOST)
        assert await orders(scene, store) == 0

    play(test)


@pytest.mark.req("K14")
def test_sent_again_the_users_write_is_made_once(play: Callable[[Test], None]) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        claim = await scene.begun()
        commit = scene.member(claim, scene.done("tx"))

        outcomes = [(await store.transact(insert, lambda _: commit)).outcome for _ in range(2)]

        assert outcomes == [Outcome.OK, Outcome.OK]
        assert await orders(scene, store) == 1

    play(test)


@pytest.mark.req("K14")
@pytest.mark.parametrize("where", ["body", "turn"])
def test_an_error_undoes_everything_and_is_raised_as_it_is(play: Callable[[Test], None], where: str) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        claim = await scene.begun()

        def body(connection: StepConnection) -> None:
            insert(connection)
            if where == "body":
                raise ValueError("the user's own")

        def turn(_: object) -> Commit:
            if where == "turn":
                raise ValueError("the user's own")
            return scene.member(claim, scene.done("tx"))

        with pytest.raises(ValueError, match="the user's own"):
            await store.transact(body, turn)

        assert await orders(scene, store) == 0
        await scene.ok(scene.member(claim, scene.done("after")))

    play(test)


@pytest.mark.req("K14", "K1")
@pytest.mark.parametrize(
    "statement",
    [
        "COMMIT",
        "ROLLBACK",
        "BEGIN",
        "END",
        "ATTACH ':memory:' AS other",
        "DELETE FROM events",
        "DELETE FROM limits",
        "DELETE FROM start_windows",
        "UPDATE tickets SET head = 9",
        "INSERT INTO runs (id) VALUES ('x')",
        "DROP TABLE inbox",
        "ALTER TABLE runs RENAME TO walks",
        "PRAGMA synchronous = OFF",
    ],
)
def test_what_would_break_the_engine_is_refused(play: Callable[[Test], None], statement: str) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        claim = await scene.begun()

        def body(connection: StepConnection) -> None:
            insert(connection)
            connection.execute(statement)

        with pytest.raises(InvalidRequest, match="transactional step"):
            await store.transact(body, lambda _: scene.member(claim, scene.done("tx")))

        assert await orders(scene, store) == 0
        assert len(await scene.log(claim.run_id)) == 2
        await scene.ok(scene.member(claim, scene.done("after")))

    play(test)


def test_the_connection_ends_with_the_step(play: Callable[[Test], None]) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        claim = await scene.begun()
        objects: list[Any] = []

        def body(connection: StepConnection) -> None:
            connection.executemany("INSERT INTO orders (what) VALUES (?)", [("a",), ("b",)])
            objects.append(connection)
            objects.append(connection.execute("SELECT what FROM orders"))  # not read to its end
            objects.append(connection.execute("INSERT INTO orders (what) VALUES ('c') RETURNING id"))

        committed = await store.transact(body, lambda _: scene.member(claim, scene.done("tx")))

        assert committed.outcome is Outcome.OK
        assert await orders(scene, store) == 3
        with pytest.raises(InvalidRequest, match="has ended"):
            objects[0].execute("SELECT 1")

    play(test)


@pytest.mark.req("K12")
def test_a_statement_that_takes_too_long_is_stopped(
    play: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "BODY_SECONDS", 0.05)
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

    async def test(scene: Scene, store: SqliteStore) -> None:
        claim = await scene.begun()

        with pytest.raises(StepTimedOut):
            await store.transact(
                lambda connection: connection.execute(endless), lambda _: scene.member(claim, scene.done("x"))
            )

        await scene.ok(scene.member(claim, scene.done("after")))

    play(test)


@pytest.mark.req("K14", "R5")
def test_sqlite3_cannot_open_our_file_in_this_process(tmp_path: Path) -> None:
    path = str(tmp_path / "app.db")
    linked = str(tmp_path / "linked.db")

    async def play() -> None:
        store = SqliteStore(path)
        await store.open()
        os.symlink(path, linked)
        for name in (path, linked, f"file:{path}?mode=ro"):
            with pytest.raises(StoreUnusable, match="locks") as caught:
                sqlite3.connect(name, uri=name.startswith("file:"))
            assert "transactional step" in caught.value.hint
        sqlite3.connect(str(tmp_path / "other.db")).close()
        sqlite3.connect(":memory:").close()
        await store.close()

    asyncio.run(play())
    sqlite3.connect(path).close()
