"""Fixtures of the fault tests: an external ledger, and each of the two stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.environment import Environment, on_postgres, on_sqlite
from tests.faults.fleet import LedgerProcess
from tools.postgres.cluster import Cluster


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LedgerProcess]:
    process = LedgerProcess(tmp_path)
    yield process
    process.close()


@pytest.fixture(params=["sqlite", "postgres"])
def environment(
    request: pytest.FixtureRequest, tmp_path: Path, ledger: LedgerProcess
) -> Iterator[Environment]:
    """A store for separate processes, and the ledger beside it."""
    if request.param == "sqlite":
        yield on_sqlite(tmp_path, ledger)
        return
    cluster: Cluster = request.getfixturevalue("postgres_cluster")
    url = cluster.databases.create()
    yield on_postgres(url, tmp_path, ledger)
    cluster.databases.drop(url)
