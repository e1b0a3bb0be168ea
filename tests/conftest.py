"""Fixtures for the whole suite: a private PostgreSQL, or the server in STEPWELL_TEST_DATABASE."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tools.postgres.cluster import Cluster
from tools.postgres.databases import Databases


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Cluster]:
    """Always private: a test may stop and kill it, and starts it again before it ends."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def postgres_databases(request: pytest.FixtureRequest) -> Databases:
    elsewhere = os.environ.get("STEPWELL_TEST_DATABASE")
    if elsewhere:
        return Databases(elsewhere)
    cluster: Cluster = request.getfixturevalue("postgres_cluster")
    return cluster.databases


@pytest.fixture
def postgres_url(postgres_databases: Databases) -> Iterator[str]:
    """A fresh, empty database for one test."""
    url = postgres_databases.create()
    yield url
    postgres_databases.drop(url)
