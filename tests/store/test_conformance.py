"""Every store passes the whole suite; none of its rules is skipped anywhere."""

from __future__ import annotations

import pytest

from stepwell.testing.store_suite import MakeStore, StoreSuite


class TestMemory(StoreSuite):
    @pytest.fixture
    def make_store(self, make_memory: MakeStore) -> MakeStore:
        return make_memory


class TestSqlite(StoreSuite):
    @pytest.fixture
    def make_store(self, make_sqlite: MakeStore) -> MakeStore:
        return make_sqlite


class TestPostgres(StoreSuite):
    @pytest.fixture
    def make_store(self, make_postgres: MakeStore) -> MakeStore:
        return make_postgres
