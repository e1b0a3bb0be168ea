"""Fixtures for the whole suite: a private PostgreSQL, or the server in STEPWELL_TEST_DATABASE."""

from __future__ import annotations

import gc
import inspect
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import alone
from tests.effort import EffortPlugin
from tests.engines import (
    durable_engines,
    engines,
    memory_engines,
    postgres,
    replayed_engines,
    run_coroutine_test,
    shared_postgres,
    sqlite,
)
from tests.pooled import every_durable_engines, pooled, pooled_engines, server_engines
from tools.postgres.cluster import Cluster
from tools.postgres.databases import Databases

__all__ = [
    "durable_engines",
    "engines",
    "every_durable_engines",
    "memory_engines",
    "pooled",
    "pooled_engines",
    "postgres",
    "replayed_engines",
    "server_engines",
    "shared_postgres",
    "sqlite",
]


# A busy machine is slow now and then, and what a change breaks it shall break every time.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as jobs in the background do; children inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(EffortPlugin(), "stepwell-effort")
    alone.register(config)


def pytest_collection_finish() -> None:
    """Keep thousands of tests, which live as long as the session, out of every later collection."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests found worth telling with `record_property`, whichever process they ran in."""
    told: dict[str, list[str]] = {}
    for report in terminalreporter.getreports("passed"):
        for what, value in report.user_properties:
            told.setdefault(what, []).append(str(value))
    for what, values in told.items():
        terminalreporter.write_line(f"{what} ({len(values)}): {'; '.join(values)}")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test may be a coroutine: it gets a loop of its own and a time limit."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    run_coroutine_test(pyfuncitem.obj, {name: pyfuncitem.funcargs[name] for name in names})
    return True


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Cluster]:
    """Always private, also to each of several processes of pytest: a test may stop and kill it, and
    starts it again before it ends."""
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
