"""Code that holds the worker's loop is told of in the log of the process: which run, and where."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from stepwell import Context, Machine, step, transition, workflow
from stepwell.engine.worker import loop_monitor
from tests.engines import PATIENCE, Engines, until


class Told(logging.Handler):
    """The first warning, for code that goes on when it is there."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""
        self.here = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage().partition("\n")[0]
        if (
            line.startswith("run ")
            and "blocked the worker's loop" in line
            and "test_loop_monitor.py:" in line
        ):
            self.text = record.getMessage()
            self.here.set()

    def spin(self) -> None:
        until = time.monotonic() + PATIENCE
        while not self.here.is_set() and time.monotonic() < until:
            pass


TOLD = Told()


@workflow(name="spinning", version="3")
async def spinning(ctx: Context, _: None) -> None:
    TOLD.spin()


@step
async def stare() -> None:
    TOLD.here.wait(PATIENCE)


@workflow
async def staring(ctx: Context, _: None) -> None:
    await ctx.step(stare)


class Turning(Machine[dict[str, int]]):
    @transition("start", "end")
    async def turn(self, ctx: Context) -> None:
        await ctx.sleep(0)
        TOLD.spin()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.setattr(loop_monitor, "_LOOK_SECONDS", 0.3)
    TOLD.__init__()  # type: ignore[misc]  # as new, for functions that know it by its name
    logger = logging.getLogger("stepwell.engine")
    logger.addHandler(TOLD)
    yield TOLD
    logger.removeHandler(TOLD)


@pytest.mark.parametrize(
    ("program", "whose", "line"),
    [
        (spinning, " (spinning version 3)", "in spin"),
        (staring, ", step 0/stare#1", "in stare"),
        (Turning, ", transition 0/turn@1", "in spin"),
    ],
)
async def test_whoever_holds_the_loop_is_named(
    memory_engines: Engines, told: Told, program: Any, whose: str, line: str
) -> None:
    async with memory_engines.new(program) as engine:
        run = await engine.start(program, None)
        await run.result(PATIENCE)

    assert told.text.startswith(f"run {run.id}{whose} has blocked")
    assert f" {line}: nothing else moves" in told.text
    assert "test_loop_monitor.py:" in told.text
    assert "a plain def: it runs in a thread" in told.text


async def test_a_loop_that_waits_is_held_by_nobody() -> None:
    """It does not beat any more while its worker comes to its end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    TOLD.here.clear()
    await until(lambda: loop_monitor.waits(sys._current_frames()[thread.ident or 0]))
    loop.call_soon_threadsafe(TOLD.here.wait, PATIENCE)
    await until(lambda: not loop_monitor.waits(sys._current_frames()[thread.ident or 0]))
    TOLD.here.set()

    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
