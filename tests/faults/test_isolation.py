"""isolation="process": a hung or crashing child never takes the worker down, and never outlives it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepwell import Engine, RunFailed
from tests.faults.client import until
from tests.faults.environment import Environment
from tests.faults.fleet import Fleet
from tests.faults.isolated_work import WORKFLOWS, hangs, leaves, outstays, segfaults, squares
from tools.postgres import processes

on_sqlite = pytest.mark.parametrize("environment", ["sqlite"], indirect=True)
pytestmark = [pytest.mark.slow, pytest.mark.req("F7"), on_sqlite]


@contextmanager
def one_worker(environment: Environment) -> Iterator[Fleet]:
    with environment.fleet("tests.faults.isolated_work") as fleet:
        fleet.ready(fleet.start())
        yield fleet


def client(environment: Environment) -> Engine:
    return Engine(environment.url, workflows=WORKFLOWS, worker=False)


async def is_gone(pid: int) -> bool:
    return not processes.running(pid)


def test_a_hung_child_is_killed_at_its_timeout_and_the_worker_goes_on(environment: Environment) -> None:
    file = environment.folder / "pid"

    async def story(fleet: Fleet) -> None:
        async with client(environment) as engine:
            with pytest.raises(RunFailed, match="longer than 1 s"):
                await (await engine.start(hangs, str(file))).result(timeout=20.0)

            await until(lambda: is_gone(int(file.read_text())))
            assert await (await engine.start(squares, 12)).result(timeout=20.0) == 144
            assert not fleet.find_dead()

    with one_worker(environment) as fleet:
        asyncio.run(story(fleet))


def test_a_crashing_child_fails_its_step_only(environment: Environment) -> None:
    async def story(fleet: Fleet) -> None:
        async with client(environment) as engine:
            beside = [await engine.start(squares, n) for n in range(5)]
            for crash in (leaves, segfaults):
                with pytest.raises(RunFailed, match="process died"):
                    await (await engine.start(crash, 3)).result(timeout=20.0)

            assert [await run.result(timeout=20.0) for run in beside] == [0, 1, 4, 9, 16]
            assert await (await engine.start(squares, 12)).result(timeout=20.0) == 144
            assert not fleet.find_dead()

    with one_worker(environment) as fleet:
        asyncio.run(story(fleet))


def test_children_die_with_a_killed_worker(environment: Environment) -> None:
    file = environment.folder / "pid"

    async def story(fleet: Fleet) -> None:
        async with client(environment) as engine:
            await engine.start(outstays, str(file))
            await until(lambda: is_written(file))
            child = int(file.read_text())
            assert processes.running(child)

            fleet.kill(fleet.workers[0])

            await until(lambda: is_gone(child))

    with one_worker(environment) as fleet:
        asyncio.run(story(fleet))


SLOW_CHILD = """
import os, sys, time
from pathlib import Path

if "stepwell.engine.execution.process_child" in sys.orig_argv:
    here = Path(__file__).parent
    (here / "starting").write_text(str(os.getpid()))
    while not (here / "go").exists():
        time.sleep(0.005)
"""

NO_KERNEL = """
import sys

if "stepwell.engine.execution.process_child" in sys.orig_argv:
    import ctypes
    from types import SimpleNamespace

    ctypes.CDLL = lambda name: SimpleNamespace(prctl=lambda *args: -1)
"""


@contextmanager
def one_worker_with(environment: Environment, code: str) -> Iterator[Fleet]:
    """Every interpreter that it starts runs this code first."""
    (environment.folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    with environment.fleet("tests.faults.isolated_work") as fleet:
        paths = [str(environment.folder), fleet.env["PYTHONPATH"]]
        fleet.ready(fleet.start(PYTHONPATH=os.pathsep.join(paths)))
        yield fleet


@pytest.mark.req("K41")
def test_a_child_that_is_still_starting_when_its_worker_is_killed_never_begins_the_step(
    environment: Environment,
) -> None:
    starting, begun = environment.folder / "starting", environment.folder / "pid"

    async def story(fleet: Fleet) -> None:
        async with client(environment) as engine:
            await engine.start(outstays, str(begun))
            await until(lambda: is_written(starting))
            child = int(starting.read_text())

            fleet.kill(fleet.workers[0])
            (environment.folder / "go").touch()

            await until(lambda: gone_or_written(child, begun))
            assert not begun.exists(), "the step began after the death of its worker"

    with one_worker_with(environment, SLOW_CHILD) as fleet:
        asyncio.run(story(fleet))


@pytest.mark.req("K41")
def test_children_die_with_a_killed_worker_where_the_kernel_does_not_see_to_it(
    environment: Environment,
) -> None:
    file = environment.folder / "pid"

    async def story(fleet: Fleet) -> None:
        async with client(environment) as engine:
            await engine.start(outstays, str(file))
            await until(lambda: is_written(file))

            fleet.kill(fleet.workers[0])

            await until(lambda: is_gone(int(file.read_text())))

    with one_worker_with(environment, NO_KERNEL) as fleet:
        asyncio.run(story(fleet))


async def gone_or_written(pid: int, file: Path) -> bool:
    return await is_gone(pid) or await is_written(file)


async def is_written(file: Path) -> bool:
    return await asyncio.to_thread(lambda: file.exists() and bool(file.read_text()))
