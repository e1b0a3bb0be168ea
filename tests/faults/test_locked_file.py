"""A process hangs while it holds SQLite's write lock: other writers get an error in time."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable

import pytest

from stepwell import Engine
from stepwell.errors import StoreLocked
from stepwell.store.sqlite import writer
from tests.faults.client import until
from tests.faults.environment import Environment
from tests.faults.fleet import Fleet
from tests.faults.locking_work import WORKFLOWS, quick, stands_still
from tools.postgres import processes

LOCK_SECONDS = 2.0
SPARE_SECONDS = 1.5  # a loaded machine is slow; a second wait for the lock would take longer

on_sqlite = pytest.mark.parametrize("environment", ["sqlite"], indirect=True)
pytestmark = [pytest.mark.slow, pytest.mark.req("K41", "R4"), on_sqlite]


async def is_stopped(pid: int) -> bool:
    return processes.stopped(pid)


async def refused(asked: Awaitable[object]) -> tuple[StoreLocked, float]:
    """The error, and after how many seconds it came."""
    began = time.monotonic()
    with pytest.raises(StoreLocked) as refusal:
        await asked
    return refusal.value, time.monotonic() - began


def test_callers_hear_in_time_who_holds_the_lock_and_what_to_do(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LOCK_SECONDS", LOCK_SECONDS)

    async def story(fleet: Fleet) -> None:
        holder = fleet.start()
        fleet.ready(holder)
        async with Engine(environment.url, workflows=WORKFLOWS, worker=False) as engine:
            await engine.start(stands_still)
            await until(lambda: is_stopped(holder.pid))

            async with asyncio.TaskGroup() as group:
                first = group.create_task(refused(engine.start(quick)))
                await asyncio.sleep(LOCK_SECONDS / 2)  # meanwhile the writer is busy with the first
                others = [
                    group.create_task(refused(engine.start(quick))),
                    group.create_task(refused(engine.emit("news"))),
                ]
            heard = [first.result(), *(task.result() for task in others)]
            holder.process.send_signal(signal.SIGCONT)
            result = await (await engine.start(quick)).result(timeout=30.0)

        for error, seconds in heard:
            assert error.code == "STORE_LOCKED"
            assert f"process {holder.pid} (" in error.message
            assert "tests.faults.worker_main" in error.message
            assert "is stopped" in error.message
            assert f"kill -CONT {holder.pid}" in error.hint
            assert LOCK_SECONDS <= seconds < LOCK_SECONDS + SPARE_SECONDS
        assert result == 1

    with environment.fleet("tests.faults.locking_work") as fleet:
        asyncio.run(story(fleet))


def test_a_busy_worker_beside_it_does_not_lengthen_the_wait(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own heartbeats, claims and sweeps wait for the same lock, each in a batch of its own."""
    monkeypatch.setattr(writer, "LOCK_SECONDS", LOCK_SECONDS)

    async def story(fleet: Fleet) -> None:
        holder = fleet.start()
        fleet.ready(holder)
        async with Engine(environment.url, workflows=[quick]) as engine:
            await engine.start("stands_still")
            await until(lambda: is_stopped(holder.pid))
            heard = []
            for _ in range(2):
                heard.append(await refused(engine.start(quick)))
            holder.process.kill()
            result = await (await engine.start(quick)).result(timeout=30.0)

        assert all(LOCK_SECONDS <= seconds < LOCK_SECONDS + SPARE_SECONDS for _, seconds in heard)
        assert result == 1

    with environment.fleet("tests.faults.locking_work") as fleet:
        asyncio.run(story(fleet))


def test_a_client_that_opens_the_file_hears_it_too(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LOCK_SECONDS", LOCK_SECONDS)

    async def story(fleet: Fleet) -> None:
        holder = fleet.start()
        fleet.ready(holder)
        async with Engine(environment.url, workflows=WORKFLOWS, worker=False) as engine:
            await engine.start(stands_still)
            await until(lambda: is_stopped(holder.pid))
            error, seconds = await refused(Engine(environment.url, workflows=[quick], worker=False).open())
            holder.process.kill()

        assert str(holder.pid) in error.message
        assert seconds < LOCK_SECONDS + SPARE_SECONDS

    with environment.fleet("tests.faults.locking_work") as fleet:
        asyncio.run(story(fleet))
