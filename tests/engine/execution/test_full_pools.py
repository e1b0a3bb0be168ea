"""A step that waits for a thread or a process is not running yet: its timeout counts from when it is."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, step, workflow
from stepwell.errors import StepTimedOut
from tests.engine.execution import process_steps
from tests.engines import SETTINGS, Engines, until

_LIMIT = 1.0  # of the step that waits
_WAITS = 1.5  # it waits for so long, well over its limit


@pytest.mark.req("K12")
async def test_time_in_the_queue_for_a_thread_does_not_count(memory_engines: Engines) -> None:
    begun, release = threading.Event(), threading.Event()

    @step(timeout=None)
    def holds_the_thread() -> str:
        begun.set()
        release.wait(20)
        return "held"

    @step(timeout=_LIMIT)
    def quick() -> str:
        return "quick"

    @workflow
    async def both(ctx: Context) -> list[str]:
        return list(await ctx.all(ctx.step(holds_the_thread), ctx.step(quick)))

    async with memory_engines.new(both, settings=replace(SETTINGS, threads=1)) as engine:
        run = await engine.start(both)
        await until(begun.is_set)
        await asyncio.sleep(_WAITS)
        release.set()

        assert await run.result() == ["held", "quick"]


@pytest.mark.req("K12")
async def test_a_step_that_waited_for_its_thread_still_has_a_limit(memory_engines: Engines) -> None:
    begun, release = threading.Event(), threading.Event()

    @step(timeout=None)
    def holds_the_thread() -> None:
        begun.set()
        release.wait(20)

    @step(timeout=_LIMIT)
    def hung() -> None:
        threading.Event().wait(20)

    @workflow
    async def both(ctx: Context) -> str:
        try:
            await ctx.all(ctx.step(holds_the_thread), ctx.step(hung))
        except StepTimedOut as error:
            return error.path
        return "?"

    async with memory_engines.new(both, settings=replace(SETTINGS, threads=1)) as engine:
        run = await engine.start(both)
        await until(begun.is_set)
        release.set()

        assert await run.result(10) == "0~2/hung#1"


@pytest.mark.slow
@pytest.mark.req("K12", "F7")
async def test_time_in_the_queue_for_a_process_does_not_count(
    memory_engines: Engines, tmp_path: Path
) -> None:
    begun, release = tmp_path / "begun", tmp_path / "release"

    @workflow
    async def both(ctx: Context) -> list[Any]:
        holder = ctx.step(process_steps.hold_until, str(begun), str(release))
        return list(await ctx.all(holder, ctx.step(process_steps.own_pid.options(timeout=2.0))))

    async with memory_engines.new(both, settings=replace(SETTINGS, processes=1)) as engine:
        run = await engine.start(both)
        await until(begun.exists)
        await asyncio.sleep(3.0)
        release.touch()

        word, pid = await run.result()
        assert word == "held"
        assert pid > 0
