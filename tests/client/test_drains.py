"""Operators: ask a worker to stop, from anywhere."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell import Context, Engine, SyncClient, step, workflow
from stepwell.domain.status import Status
from stepwell.errors import WorkerNotFound
from tests.engines import Engines, suspended, until

DONE: list[str] = []
GATE: list[asyncio.Event] = []

SCRIPT = """
import asyncio
from stepwell import Context, Engine, workflow

@workflow
async def waits(ctx: Context, n: int) -> str:
    return await ctx.signal("go", str)

asyncio.run(Engine(%r, workflows=[waits]).serve(lambda: print("up", flush=True)))
"""


@step
async def work(name: str) -> str:
    DONE.append(name)
    await GATE[0].wait()
    return name


@workflow
async def two_steps(ctx: Context, n: int) -> str:
    return await ctx.step(work, "first") + await ctx.step(work, "second")


@workflow
async def waits(ctx: Context, n: int) -> str:
    return str(await ctx.signal("go"))


@pytest.mark.req("K39")
async def test_a_drained_worker_lets_its_steps_end_and_hands_the_rest_over(engines: Engines) -> None:
    DONE.clear()
    GATE[:] = [asyncio.Event()]
    async with engines.new(two_steps) as engine, engines.client() as operator:
        run = await engine.start(two_steps, 1)
        await until(lambda: DONE == ["first"])
        assert engine.worker is not None
        assert engine._task is not None
        worker, task = engine.worker.id, engine._task

        assert await operator.drain(worker, by="ann", reason="old host")
        assert not await operator.drain(worker)
        [row] = await operator.workers()
        assert row.draining is not None
        assert (row.draining.by, row.draining.reason) == ("ann", "old host")
        await until(lambda: _is_leaving(operator))
        later = await operator.start(two_steps, 2)
        GATE[0].set()
        await asyncio.wait_for(task, 40)

        assert DONE == ["first"], "nothing new began"
        assert await operator.workers() == []
        assert await later.status() is Status.PENDING
        with pytest.raises(WorkerNotFound):
            await operator.drain(worker)
        async with engines.new(two_steps):
            assert [await one.result("20s") for one in (run, later)] == ["firstsecond"] * 2


async def _is_leaving(engine: Engine) -> bool:
    return all(row.leaving for row in await engine.workers())


@pytest.mark.req("K39", "C1")
@pytest.mark.slow
async def test_a_drained_process_exits_with_0(tmp_path: Path) -> None:
    url = str(tmp_path / "app.db")
    process = await asyncio.to_thread(
        subprocess.Popen,
        [sys.executable, "-c", SCRIPT % url],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as said:
        assert await asyncio.to_thread(said.readline) == "up\n"

    def operate() -> int:
        with SyncClient(url) as client:
            [worker] = client.workers()
            client.drain(worker.id, by="ann")
        return process.wait(60)

    assert await asyncio.to_thread(operate) == 0
    async with Engine(url, workflows=[waits]) as engine:
        await suspended(await engine.start(waits, 1))
