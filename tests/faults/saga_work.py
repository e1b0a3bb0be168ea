"""A workflow and a machine that undo their steps, as client and worker in one process.

Both do three things and fail; then everything is undone, the last first. What is done and undone is
written to a file. STEPWELL_FAILPOINTS may kill the process anywhere, also between two undoings.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from typing import Any

from stepwell import Context, Engine, Machine, Permanent, StepContext, step, transition, workflow
from stepwell.errors import RunError
from tests.faults.victims import Plan

EFFECTS = "SAGA_EFFECTS"
DONE = ("a", "b", "c")


def _note(ctx: StepContext, what: str) -> None:
    with open(os.environ[EFFECTS], "a", encoding="ascii") as file:
        file.write(f"{ctx.run_id} {what}\n")


@step
def undo(ctx: StepContext, done: str) -> str:
    _note(ctx, f"un{done}")
    return done


@step(compensate=undo)
def do(ctx: StepContext, what: str) -> str:
    _note(ctx, what)
    return what


@workflow
async def saga(ctx: Context, _: None) -> None:
    for what in DONE:
        await ctx.step(do, what)
    raise Permanent("all of it is undone")


class Saga(Machine[list[str]]):
    """Two of the steps are before a checkpoint when it fails."""

    @transition("start", "half")
    async def begin(self, ctx: Context) -> None:
        for what in DONE[:2]:
            self.state.append(await ctx.step(do, what))

    @transition("half", "end")
    async def fail(self, ctx: Context) -> None:
        self.state.append(await ctx.step(do, DONE[2]))
        raise Permanent("all of it is undone")


async def visit(url: str, *plan: Any) -> None:
    await finish(url, [Plan(*plan)])


async def finish(url: str, plans: Sequence[Plan]) -> None:
    queues = [plan.queue for plan in plans]
    async with Engine(url, workflows=[saga, Saga], queues=queues) as engine:
        await asyncio.gather(*(_lived(engine, queue) for queue in queues))


async def _lived(engine: Engine, queue: str) -> None:
    both: list[tuple[Any, str]] = [(saga, "function"), (Saga, "machine")]
    for program, name in both:
        run = await engine.start(program, None, key=f"{name}/{queue}", queue=queue)
        with contextlib.suppress(RunError):
            await run.result()
