"""The workflows that are measured: the same no-op work that the floor and the peers do."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from stepwell import Context, step, workflow

HOLD = "BENCH_HOLD"  # set: the last step of `long_recovery` never ends, and its worker can be killed in it

finished: list[float] = []  # when each step of `long_run` and `short_run` ended; in the process that ran it


@step
async def work(number: int) -> dict[str, Any]:
    return {"i": number, "ok": True}


@workflow
async def steps_in_turn(ctx: Context, count: int) -> dict[str, int]:
    for number in range(count):
        await ctx.step(work, number)
    return {"n": count}


@workflow
async def steps_at_once(ctx: Context, count: int) -> int:
    results = await asyncio.gather(*(ctx.step(work, number) for number in range(count)))
    return len({result["i"] for result in results})


@workflow
async def steps_mapped(ctx: Context, count: int) -> int:
    results = await ctx.map(work, range(count), limit=count)
    return len({result["i"] for result in results})


@workflow
async def child(ctx: Context, number: int) -> dict[str, int]:
    return {"i": number}


@workflow
async def children_at_once(ctx: Context, count: int) -> int:
    results = await asyncio.gather(*(ctx.run(child, number) for number in range(count)))
    return len({result["i"] for result in results})


@workflow
async def nap(ctx: Context, due: float) -> float:
    """Returns how late its code went on, in seconds. Only its last activation gets that far."""
    await ctx.sleep(max(0.0, due - ctx.now().timestamp()))
    return time.time() - due


class Gate:
    """Where a run waits until it may go on; both sides are in one process."""

    def __init__(self) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()

    async def wait(self) -> None:
        self.opened.clear()
        self.reached.set()
        await self.opened.wait()

    def let_through(self) -> None:
        self.reached.clear()
        self.opened.set()


gates: dict[str, Gate] = {}  # by run


@step
async def pause(run: str) -> None:
    await gates[run].wait()


@workflow
async def short_run(ctx: Context, count: int) -> dict[str, int]:
    for number in range(count):
        await ctx.step(work, number)
        finished.append(time.perf_counter())
    return {"n": count}


@workflow
async def long_run(ctx: Context, plan: dict[str, int]) -> dict[str, int]:
    """Without a pause, then some rounds of steps, each as soon as its gate is opened."""
    for number in range(plan["before"]):
        await ctx.step(work, number)
    for _ in range(plan["rounds"]):
        await ctx.step(pause, ctx.key)
        for number in range(plan["window"]):
            await ctx.step(work, number)
            finished.append(time.perf_counter())
    await ctx.step(pause, ctx.key)
    return {"n": plan["before"] + plan["rounds"] * plan["window"]}


@step
async def last() -> str:
    if os.environ.get(HOLD):
        await asyncio.Event().wait()
    return "recovered"


@workflow
async def long_recovery(ctx: Context, count: int) -> str:
    for number in range(count):
        await ctx.step(work, number)
    return await ctx.step(last)


FLOWS = (
    steps_in_turn,
    steps_at_once,
    steps_mapped,
    child,
    children_at_once,
    nap,
    short_run,
    long_run,
    long_recovery,
)
