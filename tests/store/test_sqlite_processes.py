"""Several processes on one SQLite file: they let each other write, wake each other and inherit."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from stepwell.domain.commit import Reaped, WorkerInfo
from stepwell.domain.ids import WorkerId
from stepwell.store.sqlite import database_file, workers
from stepwell.store.sqlite.store import SqliteStore
from stepwell.store.sqlite.write_intent import YIELD_SECONDS, Intent
from stepwell.testing.clock import FakeClock
from stepwell.testing.stores.scene import Scene

ROOT = Path(__file__).parents[2]
T = TypeVar("T")

Other = subprocess.Popen[str]
Begin = Callable[[str], Other]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "app.db")


@pytest.fixture
def begin(path: str) -> Iterator[Begin]:
    """Starts another process and waits until it is ready; all are ended."""
    begun: list[Other] = []

    def run(verb: str) -> Other:
        other = subprocess.Popen(
            [sys.executable, "-m", "tests.store.sqlite_process", verb, path],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": "src"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        begun.append(other)
        return other

    yield run
    for other in begun:
        other.kill()
        other.communicate()


def heard(other: Other) -> str:
    assert other.stdout is not None
    return other.stdout.readline().strip()


def send(other: Other, text: str = "go") -> None:
    assert other.stdin is not None
    other.stdin.write(f"{text}\n")
    other.stdin.flush()


def play(path: str, test: Callable[[Scene, SqliteStore], Awaitable[T]], **clock: FakeClock) -> T:
    async def whole() -> T:
        store = SqliteStore(path, **clock)
        await store.open()
        try:
            return await test(Scene(store, clock.get("clock") or FakeClock()), store)
        finally:
            await store.close()

    return asyncio.run(whole())


@pytest.mark.slow
@pytest.mark.req("K4", "R3")
@pytest.mark.parametrize("clock", [{}, {"clock": FakeClock(1_000_000.0)}], ids=["boot-clock", "given-clock"])
def test_the_runs_of_a_killed_process_are_free_at_once(
    path: str, begin: Begin, clock: dict[str, FakeClock]
) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        run_id = await scene.start()
        other = begin("own")
        assert await asyncio.to_thread(heard, other) == "owns 1"
        assert await store.reap() == Reaped(0, 0, False)
        assert [worker.id for worker in await store.list_workers()] == ["far"]

        other.kill()
        other.wait()

        assert await store.list_workers() == []
        assert await store.reap() == Reaped(1, 1, False)
        [heir] = await scene.claim_as(await scene.worker())
        assert (heir.run_id, heir.losses, heir.lost_lease) == (run_id, 1, "l0")
        assert os.listdir(f"{path}.workers") == ["w1"]

    play(path, test, **clock)


@pytest.mark.slow
@pytest.mark.req("K34")
def test_a_process_that_ends_well_leaves_nothing_behind(path: str, begin: Begin) -> None:
    other = begin("own")
    assert heard(other) == "owns 0"

    send(other)

    assert other.wait(10) == 0
    assert {
        name for name in os.listdir(os.path.dirname(path)) if "workers" in name or "hints" in name
    } == set()


@pytest.mark.req("K4", "R4")
def test_a_lock_that_is_held_does_not_stretch_a_lease(path: str) -> None:
    """A frozen process keeps its lock; its lease must run out all the same."""
    clock = FakeClock()

    async def test(scene: Scene, store: SqliteStore) -> None:
        await scene.begun()
        await scene.worker("w2")
        await scene.beat("w2", 16.0)

        assert await store.reap() == Reaped(1, 1, False)

    play(path, test, clock=clock)


@pytest.mark.req("K4")
def test_workers_of_an_earlier_boot_are_dead(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def before(scene: Scene, store: SqliteStore) -> None:
        await store.register(WorkerInfo(id=WorkerId("old"), lease_seconds=1e9))

    async def after(scene: Scene, store: SqliteStore) -> Reaped:
        return await store.reap()

    play(path, before)
    alive = play(path, after)
    monkeypatch.setattr(workers, "_boot_id", lambda: "another boot")
    dead = play(path, after)

    assert (alive.workers, dead.workers) == (0, 1)


def test_leases_are_shown_on_the_wall_clock(path: str) -> None:
    async def test(scene: Scene, store: SqliteStore) -> float:
        await store.register(WorkerInfo(id=WorkerId("w"), lease_seconds=15.0))
        [worker] = await store.list_workers()
        return worker.lease_until - await store.now()

    assert 14.0 < play(path, test) <= 15.0


@pytest.mark.slow
@pytest.mark.req("K31")
def test_a_hint_reaches_the_other_process(path: str, begin: Begin) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        other = begin("listen")
        assert await asyncio.to_thread(heard, other) == "listens"

        store.hint()

        assert await asyncio.to_thread(heard, other) == "hint"

    play(path, test)


@pytest.mark.slow
@pytest.mark.req("K31")
def test_a_hint_of_another_process_calls_back_in_the_loop(path: str, begin: Begin) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        came = asyncio.Event()
        stop = store.listen(lambda text: came.set())
        other = begin("hint")
        assert await asyncio.to_thread(heard, other) == "ready"

        send(other)
        await asyncio.wait_for(came.wait(), 5.0)

        stop()
        assert os.listdir(f"{path}.hints") == []

    play(path, test)


@pytest.mark.slow
@pytest.mark.req("K31")
def test_sockets_of_the_dead_are_removed(path: str, begin: Begin) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        other = begin("listen")
        await asyncio.to_thread(heard, other)
        other.kill()
        other.wait()
        assert len(os.listdir(f"{path}.hints")) == 1

        store.hint()

        assert os.listdir(f"{path}.hints") == []

    play(path, test)


@pytest.mark.req("K31")
def test_paths_too_long_for_a_socket_work(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30) / ("longer" * 20)
    folder.mkdir(parents=True)
    path = str(folder / "app.db")

    async def test() -> None:
        one, two = SqliteStore(path), SqliteStore(path)
        await one.open()
        await two.open()
        came = asyncio.Event()
        two.listen(lambda text: came.set())

        one.hint()
        await asyncio.wait_for(came.wait(), 5.0)

        await one.close()
        await two.close()

    asyncio.run(test())
    assert sorted(os.listdir(folder)) == ["app.db", "app.db.intent"]


@pytest.mark.slow
@pytest.mark.req("C1", "R7")
def test_a_writer_beside_a_busy_one_does_not_starve(path: str, begin: Begin) -> None:
    async def test(scene: Scene, store: SqliteStore) -> list[float]:
        other = begin("busy")
        assert await asyncio.to_thread(heard, other) == "writes"
        await asyncio.sleep(0.05)
        took = []
        for number in range(30):
            began = time.perf_counter()
            await store.start([scene.new_run(id=f"mine{number:03d}")])
            took.append(time.perf_counter() - began)
        send(other)
        assert int((await asyncio.to_thread(heard, other)).split()[1]) > 50
        return took

    took = sorted(play(path, test))

    # Only a guard against starving for seconds: what the intent lock itself does is tested below.
    assert took[len(took) // 2] < 0.2, took


@pytest.mark.slow
@pytest.mark.req("R3", "K6")
def test_busy_processes_together_lose_nothing(path: str, begin: Begin) -> None:
    others = [begin("busy") for _ in range(2)]
    for other in others:
        assert heard(other) == "writes"
    time.sleep(0.1)
    for other in others:
        send(other)

    wrote = sum(int(heard(other).split()[1]) for other in others)

    async def test(scene: Scene, store: SqliteStore) -> int:
        assert store._reader is not None
        connection = store._reader._session.connection
        logs: int = connection.execute("SELECT count(*) FROM events").get
        tickets: int = connection.execute("SELECT count(*) FROM tickets").get
        assert logs == tickets
        return logs

    for other in others:
        other.wait(10)
    assert play(path, test) == wrote


@pytest.mark.req("R7")
def test_a_busy_writer_steps_aside_while_somebody_waits(path: str) -> None:
    busy, waiter = Intent(path), Intent(path)

    waiter.announce()
    began = time.monotonic()
    busy.step_aside()
    aside = time.monotonic() - began
    waiter.withdraw()

    assert aside >= YIELD_SECONDS
    assert busy._is_alone()
    busy.close()
    waiter.close()


@pytest.mark.req("R7")
def test_who_waits_for_the_write_lock_says_so_until_it_has_it(path: str) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        watching = Intent(path)
        blocking = database_file.open_writer(path)
        blocking.execute("BEGIN IMMEDIATE")
        async with asyncio.TaskGroup() as group:
            starting = group.create_task(store.start([scene.new_run()]))
            async with asyncio.timeout(5.0):
                while watching._is_alone():  # noqa: ASYNC110 - the other side is a thread
                    await asyncio.sleep(0.001)
            assert not starting.done()
            blocking.execute("COMMIT")

        assert starting.result()[0].created
        assert watching._is_alone()
        blocking.close()
        watching.close()

    play(path, test)
