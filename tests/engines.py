"""Engines on each kind of store, for tests that are coroutines.

A test asks for `engines` and runs on memory, SQLite and PostgreSQL; for `replayed_engines` and runs on
memory twice, straight and with its code replayed after every commit; for `memory_engines` where only one
matters.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine, RunHandle, Settings
from stepwell.app import GraphSource
from stepwell.domain.commit import TicketRow
from stepwell.domain.program import Program
from stepwell.domain.status import Status
from stepwell.store.base import Store
from stepwell.store.memory import MemoryStore
from tests.store.trio import SharedDatabase
from tools.postgres.databases import Databases

TEST_SECONDS = 180.0
PATIENCE = 40.0  # for what must happen; a machine under load is slow, a broken engine never gets there

# Patient leases: a busy machine must not look like a dead worker. Waits park at once.
SETTINGS = Settings(lease_seconds=30, heartbeat_seconds=3, reap_seconds=1, keep_lease_seconds=0.001)
# Does not look by itself: what is not hinted at is not done in time.
DEAF = replace(SETTINGS, poll_seconds=600)
# For take-over: the shortest that a loaded machine keeps.
SHORT_LEASE = Settings(lease_seconds=1.0, heartbeat_seconds=0.2, reap_seconds=0.2, keep_lease_seconds=0.001)


class Engines:
    """One database, and engines on it that come and go."""

    def __init__(self, kind: str, database: str | Store, *, replays: bool = False) -> None:
        self.kind = kind
        self.database = database
        self._replays = replays

    def new(self, *workflows: Program | GraphSource, **options: Any) -> Engine:
        options.setdefault("settings", SETTINGS)
        options.setdefault("replay_always", self._replays)
        return Engine(self.database, workflows=workflows, **options)

    def client(self) -> Engine:
        """Without a worker, and without any workflow code."""
        return self.new(worker=False)


async def crash(engine: Engine, *, found_dead: bool = True) -> None:
    """The worker is gone without a word; `found_dead`: and its lease has run out."""
    assert engine.worker is not None
    assert engine._task is not None
    engine._task.cancel()
    await asyncio.wait({engine._task})
    if found_dead:
        await engine.store.deregister(engine.worker.id)
    await engine.close()


async def until(holds: Callable[[], Any], *, seconds: float = PATIENCE) -> Any:
    """Wait until this gives something true, and give it back."""
    limit = time.monotonic() + seconds
    while True:
        found = holds()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < limit, "waited in vain"
        await asyncio.sleep(0.005)


async def reaches(run: RunHandle[Any], status: Status) -> None:
    async def there() -> bool:
        return await run.status() is status

    await until(there)


async def suspended(run: RunHandle[Any]) -> None:
    await reaches(run, Status.SUSPENDED)


async def parked(run: RunHandle[Any]) -> None:
    """Nobody has the run in hand; it may count as running all the same."""

    async def there() -> bool:
        found = await ticket(run)
        return found is not None and found.started and not found.lease

    await until(there)


async def log(run: RunHandle[Any]) -> list[str]:
    """The kinds of the run's events, with their paths."""
    return [f"{event.kind} {event.path}".strip() async for event in run.events()]


async def kinds(run: RunHandle[Any]) -> list[str]:
    return [event.kind async for event in run.events()]


async def ticket(run: RunHandle[Any]) -> TicketRow | None:
    found = [t for t in await run._client.store.read_tickets(run.id) if t.path == ""]
    return found[0] if found else None


async def all_events(run: RunHandle[Any]) -> list[Any]:
    return [event async for event in run.events()]


def same(one: object, other: object) -> bool:
    """Equal in value and in type, all the way down (containers of the standard library)."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return all(same(a, b) for a, b in zip(one, other, strict=True))
    return True


@pytest.fixture(scope="session")
def shared_postgres(postgres_databases: Databases) -> Iterator[SharedDatabase]:
    shared = SharedDatabase(postgres_databases)
    yield shared
    shared.close()


@pytest.fixture
def memory_engines() -> Engines:
    return Engines("memory", MemoryStore(time.time))


@pytest.fixture
def sqlite(tmp_path: Path) -> Engines:
    return Engines("sqlite", str(tmp_path / "app.db"))


@pytest.fixture
def postgres(shared_postgres: SharedDatabase) -> Engines:
    shared_postgres.empty()
    return Engines("postgres", shared_postgres.url)


@pytest.fixture(params=[pytest.param("memory_engines", id="memory"), "sqlite", "postgres"])
def engines(request: pytest.FixtureRequest) -> Engines:
    """A test that asks for it runs on every store."""
    made: Engines = request.getfixturevalue(request.param)
    return made


@pytest.fixture(params=["sqlite", "postgres"])
def durable_engines(request: pytest.FixtureRequest) -> Engines:
    """The stores that outlive a process."""
    made: Engines = request.getfixturevalue(request.param)
    return made


@pytest.fixture(params=["straight", "replayed"])
def replayed_engines(request: pytest.FixtureRequest) -> Engines:
    """On memory; `replayed`: workflow code begins again after every commit."""
    return Engines("memory", MemoryStore(time.time), replays=request.param == "replayed")


def run_coroutine_test(function: Callable[..., Awaitable[None]], arguments: dict[str, Any]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(TEST_SECONDS):
            await function(**arguments)

    asyncio.run(limited())
