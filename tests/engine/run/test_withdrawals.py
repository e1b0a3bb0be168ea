"""Thousands of branches that nobody waits for any more: leaving them costs the same for each."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

from stepwell import Context, workflow
from stepwell.engine.execution.thread_pool import ThreadPool
from tests.engines import Engines, suspended, until


async def never(i: int) -> None:
    await asyncio.Event().wait()


async def quick(i: int) -> int:
    return i


@workflow
async def race(ctx: Context, branches: int) -> None:
    await ctx.first(ctx.all(*(ctx.step(never, i) for i in range(branches))), ctx.signal("stop"))
    await ctx.map(quick, range(branches))
    await ctx.signal("more")


@pytest.mark.req("F4")
async def test_a_replay_withdraws_many_steps_in_time_that_grows_with_their_number(
    memory_engines: Engines,
) -> None:
    """All later answers are there while it withdraws them; it must not look through them for each."""
    few, many = [await calls_of_replay(memory_engines, branches) for branches in (400, 800)]

    assert many < 2.5 * few


async def calls_of_replay(engines: Engines, branches: int) -> int:
    """How many Python functions it takes; a clock would tell of the machine."""
    async with engines.new(race) as engine:
        run = await engine.start(race, branches)
        await run.signal("stop")
        await until(lambda: _waits_for(run, "more"))
        await suspended(run)
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    async with engines.new(race) as engine:
        again = engine.handle(run.id)
        sys.setprofile(count)
        try:
            await again.signal("more")
            await again.result(60)
        finally:
            sys.setprofile(None)
    return calls


async def _waits_for(run: Any, name: str) -> bool:
    return any(wait.name == name for wait in await run.waits())


class Work:
    """A call that counts with how many others it is compared."""

    compared = 0

    def __call__(self) -> None: ...

    def __eq__(self, other: object) -> bool:
        Work.compared += 1
        return self is other

    __hash__ = None  # type: ignore[assignment]  # nor is it looked up


@pytest.mark.req("F4")
async def test_calls_that_wait_for_a_thread_are_left_one_by_one() -> None:
    threads, release = ThreadPool("test", 1), threading.Event()
    busy = asyncio.create_task(threads.run(release.wait))
    waiting = [asyncio.create_task(threads.run(Work())) for _ in range(5000)]
    await asyncio.sleep(0)

    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    release.set()

    assert await busy
    assert Work.compared == 0
    threads.close()
