"""Each kind of store, empty, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.store.memory import MemoryStore
from stepwell.store.postgres.store import PostgresStore
from stepwell.store.sqlite.store import SqliteStore
from stepwell.testing.store_suite import MakeStore
from tests.store.trio import empty
from tools.postgres.databases import Databases


@pytest.fixture(scope="session")
def postgres_shared_url(postgres_databases: Databases) -> Iterator[str]:
    """One database for many tests: taking the rows out is faster than making a new one."""
    url = postgres_databases.create()
    yield url
    postgres_databases.drop(url)


@pytest.fixture
def make_memory() -> MakeStore:
    return MemoryStore


@pytest.fixture
def make_sqlite(tmp_path: Path) -> MakeStore:
    return lambda clock: SqliteStore(tmp_path / "app.db", clock=clock)


@pytest.fixture
def make_postgres(postgres_shared_url: str) -> MakeStore:
    asyncio.run(empty(postgres_shared_url))
    return lambda clock: PostgresStore(postgres_shared_url, clock=clock)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make_store(request: pytest.FixtureRequest) -> MakeStore:
    """A test that asks for it runs on every store."""
    made: MakeStore = request.getfixturevalue(f"make_{request.param}")
    return made
