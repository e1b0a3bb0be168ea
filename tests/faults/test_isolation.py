"""isolation="process": a hung or crashing child never takes the worker down, and never outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepwell import Engine, RunFailed
from tests.faults.client import until
from tests.faults.fleet import Fleet
from tests.faults.isolated_work import WORKFLOWS, hangs, leaves, outstays, segfaults, squares
from tests.faults.stage import Stage
from tools.postgres import processes

on_sqlite = pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
pytestmark = [pytest.mark.slow, pytest.mark.req("F7"), on_sqlite]


@contextmanager
def one_worker(stage: Stage) -> Iterator[Fleet]:
    with stage.fleet("tests.faults.isolated_work") as fleet:
        fleet.ready(fleet.start())
        yield fleet


def client(stage: Stage) -> Engine:
    return Engine(stage.url, workflows=WORKFLOWS, worker=False)


async def is_gone(pid: int) -> bool:
    return not processes.running(pid)


def test_a_hung_child_is_killed_at_its_timeout_and_the_worker_goes_on(stage: Stage) -> None:
    file = stage.folder / "pid"

    async def story(fleet: Fleet) -> None:
        async with client(stage) as engine:
            with pytest.raises(RunFailed, match="longer than 1 s"):
                await (await engine.start(hangs, str(file))).result(timeout=20.0)

            await until(lambda: is_gone(int(file.read_text())))
            assert await (await engine.start(squares, 12)).result(timeout=20.0) == 144
            assert not fleet.find_dead()

    with one_worker(stage) as fleet:
        asyncio.run(story(fleet))


def test_a_crashing_child_fails_its_step_only(stage: Stage) -> None:
    async def story(fleet: Fleet) -> None:
        async with client(stage) as engine:
            beside = [await engine.start(squares, n) for n in range(5)]
            for crash in (leaves, segfaults):
                with pytest.raises(RunFailed, match="process died"):
                    await (await engine.start(crash, 3)).result(timeout=20.0)

            assert [await run.result(timeout=20.0) for run in beside] == [0, 1, 4, 9, 16]
            assert await (await engine.start(squares, 12)).result(timeout=20.0) == 144
            assert not fleet.find_dead()

    with one_worker(stage) as fleet:
        asyncio.run(story(fleet))


def test_children_die_with_a_killed_worker(stage: Stage) -> None:
    file = stage.folder / "pid"

    async def story(fleet: Fleet) -> None:
        async with client(stage) as engine:
            await engine.start(outstays, str(file))
            await until(lambda: is_written(file))
            child = int(file.read_text())
            assert processes.running(child)

            fleet.kill(fleet.workers[0])

            await until(lambda: is_gone(child))

    with one_worker(stage) as fleet:
        asyncio.run(story(fleet))


async def is_written(file: Path) -> bool:
    return await asyncio.to_thread(lambda: file.exists() and bool(file.read_text()))
