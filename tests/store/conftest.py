"""Each kind of store, empty, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.store.memory import MemoryStore
from stepwell.store.postgres.store import PostgresStore
from stepwell.store.sqlite.store import SqliteStore
from stepwell.testing.store_suite import MakeStore
from tests.store.trio import SharedDatabase
from tools.postgres.databases import Databases


@pytest.fixture(scope="session")
def postgres_shared(postgres_databases: Databases) -> Iterator[SharedDatabase]:
    shared = SharedDatabase(postgres_databases)
    yield shared
    shared.close()


@pytest.fixture
def make_memory() -> MakeStore:
    return MemoryStore


@pytest.fixture
def make_sqlite(tmp_path: Path) -> MakeStore:
    return lambda clock: SqliteStore(tmp_path / "app.db", clock=clock)


@pytest.fixture
def make_postgres(postgres_shared: SharedDatabase) -> MakeStore:
    postgres_shared.empty()
    return lambda clock: PostgresStore(postgres_shared.url, clock=clock)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make_store(request: pytest.FixtureRequest) -> MakeStore:
    """A test that asks for it runs on every store."""
    make: MakeStore = request.getfixturevalue(f"make_{request.param}")
    return make
