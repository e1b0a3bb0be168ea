"""A database behind a real PgBouncer in transaction mode: many clients share few connections."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.engines import Engines
from tools.postgres import pooler
from tools.postgres.binaries import say


@pytest.fixture
def pooled(postgres_url: str) -> Iterator[str]:
    """Where there is no PgBouncer and none can be had, the same without one: then only poll_only is tried."""
    address, port = urlsplit(postgres_url).hostname, urlsplit(postgres_url).port
    program = pooler.find() if address == "127.0.0.1" else None
    if program is None or port is None:
        say("PgBouncer is not installed and cannot be: poll_only is tried without it")
        yield f"{postgres_url}?poll_only=1"
        return
    with pooler.Pooler(program, port) as running:
        yield f"{running.url(postgres_url)}?poll_only=1"


@pytest.fixture
def pooled_engines(pooled: str) -> Engines:
    return Engines("postgres", pooled)


@pytest.fixture(params=["postgres", pytest.param("pooled_engines", id="pgbouncer")])
def server_engines(request: pytest.FixtureRequest) -> Engines:
    """The databases that several machines may use."""
    made: Engines = request.getfixturevalue(request.param)
    return made


@pytest.fixture(params=["sqlite", "postgres", pytest.param("pooled_engines", id="pgbouncer")])
def every_durable_engines(request: pytest.FixtureRequest) -> Engines:
    """The stores that outlive a process, by every way to them."""
    made: Engines = request.getfixturevalue(request.param)
    return made
