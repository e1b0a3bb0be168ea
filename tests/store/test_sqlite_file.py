"""The SQLite file: creation, migration, and files that are refused before a byte of them changes."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from stepwell.errors import StoreUnusable
from stepwell.store import queries
from stepwell.store.sqlite import database_file
from stepwell.store.sqlite.session import QUERIES, Session
from stepwell.store.sqlite.store import SqliteStore
from stepwell.testing.clock import FakeClock
from stepwell.testing.stores.scene import Scene


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "app.db")


def opened(path: str) -> None:
    async def play() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.close()

    asyncio.run(play())


def refusal(path: str) -> str:
    with pytest.raises(StoreUnusable) as caught:
        opened(path)
    assert caught.value.hint
    return str(caught.value)


def schema_of(connection: apsw.Connection) -> list[tuple[str, str, str]]:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return sorted((kind, name, _plain(sql)) for kind, name, sql in rows)


def _plain(sql: str) -> str:
    """Without comments and line breaks; SQLite sets a column that was added in its own way."""
    return re.sub(r"\s*([(),])\s*", r"\1", " ".join(re.sub(r"--.*", "", sql).split()))


def test_schema_equals_all_migrations() -> None:
    written, migrated = apsw.Connection(":memory:"), apsw.Connection(":memory:")
    written.execute(queries.text("stepwell.store.sqlite", "schema.sql"))
    for _, text in database_file.migrations():
        migrated.execute(text)

    assert schema_of(written) == schema_of(migrated)


def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in database_file.migrations()] == list(
        range(1, len(database_file.migrations()) + 1)
    )


def test_every_query_can_be_prepared(path: str) -> None:
    connection = database_file.open_writer(path)
    for name, query in QUERIES.items():
        names = dict.fromkeys(re.findall(r":(\w+)", query))
        count = max([int(n) for n in re.findall(r"\?(\d+)", query)] or [query.count("?")])
        values = names or (None,) * count

        assert connection.execute(f"EXPLAIN {query}", values).fetchall(), name
    connection.close()


@pytest.mark.parametrize("name", ["open_groups", "solo_groups", "open_tickets", "fences", "ownerless"])
def test_hot_queries_never_walk_all_tickets(path: str, name: str) -> None:
    connection = database_file.open_writer(path)
    count = max(int(n) for n in re.findall(r"\?(\d+)", QUERIES[name]))
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {QUERIES[name]}", (None,) * count)]
    connection.close()

    walks = [step for step in plan if step.startswith("SCAN tickets") and "tickets_owned" not in step]
    assert walks == []
    assert not [step for step in plan if "TEMP B-TREE" in step and name == "open_tickets"]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("known_keys", "runs_key (workspace=? AND key=?)"),
        ("find_run", "runs_key (workspace=? AND key=?)"),
        ("published_by_key", "published_events_key (workspace=? AND name=? AND key=? AND at>?)"),
    ],
)
def test_what_was_given_a_key_is_found_by_it(path: str, name: str, index: str) -> None:
    connection = database_file.open_writer(path)
    count = max(int(n) for n in re.findall(r"\?(\d+)", QUERIES[name]))
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {QUERIES[name]}", (None,) * count)]
    connection.close()

    assert [step for step in plan if index in step], plan


@pytest.mark.req("R5")
def test_a_new_file_is_ours_durable_and_in_wal_mode(path: str) -> None:
    opened(path)

    connection = apsw.Connection(path)
    assert connection.pragma("application_id") == database_file.APPLICATION_ID
    assert connection.pragma("user_version") == database_file.migrations()[-1][0]
    assert connection.pragma("journal_mode") == "wal"
    connection.close()
    writer = database_file.open_writer(path)
    assert writer.pragma("synchronous") == 2
    writer.close()


def test_nothing_is_left_beside_a_closed_file_but_the_intent(path: str) -> None:
    opened(path)

    assert sorted(os.listdir(os.path.dirname(path))) == ["app.db", "app.db.intent"]


@pytest.mark.req("R8")
def test_a_migration_that_was_interrupted_is_done_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = database_file.migrations()
    broken = [*first, (len(first) + 1, "CREATE TABLE half (x); SELECT no_such_function();")]
    monkeypatch.setattr(database_file, "migrations", lambda: broken)
    with pytest.raises(Exception, match=r"unknown|no such"):
        opened(path)
    monkeypatch.setattr(database_file, "migrations", lambda: first)

    opened(path)

    connection = apsw.Connection(path)
    assert connection.pragma("user_version") == len(first)
    assert not connection.table_exists("main", "half")
    connection.close()


@pytest.mark.req("R8")
def test_many_may_open_a_new_file_at_once(path: str) -> None:
    problems: list[BaseException] = []

    def attempt() -> None:
        try:
            database_file.open_writer(path).close()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert problems == []


@pytest.mark.req("R5")
class TestRefused:
    def test_a_file_that_is_no_database(self, path: str) -> None:
        Path(path).write_bytes(b"name,amount\n" * 500)

        assert "damaged or not a SQLite database" in refusal(path)
        assert Path(path).read_bytes() == b"name,amount\n" * 500

    def test_a_damaged_file(self, path: str) -> None:
        opened(path)
        content = bytearray(Path(path).read_bytes())
        content[4096 * 2 : 4096 * 6] = os.urandom(4096 * 4)
        Path(path).write_bytes(content)

        assert "damaged" in refusal(path)

    def test_a_truncated_file(self, path: str) -> None:
        opened(path)
        content = Path(path).read_bytes()
        Path(path).write_bytes(content[: len(content) // 2])

        assert "damaged" in refusal(path)

    @pytest.mark.parametrize(
        "making", ["CREATE TABLE notes (text)", "PRAGMA application_id = 7", "CREATE TABLE runs (id)"]
    )
    def test_the_file_of_another_application(self, path: str, making: str) -> None:
        connection = sqlite3.connect(path)
        connection.execute(making)
        connection.commit()
        connection.close()
        before = Path(path).read_bytes()

        assert "another application" in refusal(path)
        assert Path(path).read_bytes() == before

    def test_a_file_of_a_newer_version(self, path: str) -> None:
        opened(path)
        connection = apsw.Connection(path)
        connection.pragma("user_version", 999)
        connection.close()

        text = refusal(path)

        assert "newer" in text
        assert "999" in text

    def test_a_directory(self, tmp_path: Path) -> None:
        assert "directory" in refusal(str(tmp_path))

    def test_a_missing_directory(self, tmp_path: Path) -> None:
        assert "mkdir -p" in refusal(str(tmp_path / "missing" / "app.db"))

    def test_a_place_that_cannot_be_written(self) -> None:
        assert "writable" in refusal("/proc/app.db")

    def test_an_old_library(self, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")

        assert "too old" in refusal(path)

    def test_a_network_filesystem(self, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(database_file, "_filesystem", lambda _: "nfs4")

        assert "network filesystem" in refusal(path)


def test_the_filesystem_of_a_folder_is_found(tmp_path: Path) -> None:
    assert database_file._filesystem("/proc/self") == "proc"
    assert database_file._filesystem(str(tmp_path)) not in {"", "proc"}


@pytest.fixture
def views(path: str) -> Iterator[apsw.Connection]:
    async def play() -> None:
        clock = FakeClock()
        store = SqliteStore(path, clock=clock)
        await store.open()
        scene = Scene(store, clock)
        await scene.suspended(id="sleeping")
        await scene.start(id="waiting")
        await store.close()

    asyncio.run(play())
    connection = apsw.Connection(path)
    yield connection
    connection.close()


@pytest.mark.req("K1")
def test_views_show_text_and_readable_times(views: apsw.Connection) -> None:
    rows = views.execute("SELECT id, status, input, created_at, due_at FROM run_view ORDER BY id").fetchall()
    [accepted] = views.execute("SELECT kind, at, payload FROM event_view WHERE run_id = 'waiting'").fetchall()

    stamp = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("sleeping", "suspended", '{"n":1}'),
        ("waiting", "pending", '{"n":1}'),
    ]
    assert all(stamp.fullmatch(str(row[3])) for row in rows)
    assert rows[0][4] is None
    assert accepted[0] == "accepted"
    assert stamp.fullmatch(str(accepted[1]))
    assert str(accepted[2]).startswith('{"workflow"')


@pytest.mark.parametrize("open_connection", [database_file.open_writer, database_file.open_reader])
def test_a_statement_is_prepared_once_whatever_its_values_are(
    path: str, open_connection: Callable[[str], apsw.Connection]
) -> None:
    """SQLite asks its authorizer whenever it prepares; a plan that depends on values is made at each use."""
    opened(path)
    connection = open_connection(path)
    session = Session(connection)
    prepared: list[int] = []

    def note(action: int, *_: object) -> int:
        prepared.append(action)
        return apsw.SQLITE_OK

    connection.authorizer = note
    session.row("read_definition", "default", "first", "")
    assert prepared
    prepared.clear()

    session.row("read_definition", "default", "second", "2")

    assert not prepared
    connection.close()
