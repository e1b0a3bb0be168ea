"""Work that ends its own worker, and work beside it that must not suffer."""

from __future__ import annotations

import os
import signal

from stepwell import Context, StepContext, step, workflow
from tests.faults.ledger_client import effect


@step
async def harmless(ctx: StepContext, n: int) -> int:
    await effect(ctx)
    return n + 1


@step
async def deadly(ctx: StepContext, n: int) -> int:
    await effect(ctx)
    os.kill(os.getpid(), signal.SIGKILL)
    return n


@workflow
async def doomed(ctx: Context, n: int) -> int:
    n = await ctx.step(harmless, n)
    return await ctx.step(deadly, n)


@workflow
async def innocent(ctx: Context, n: int) -> int:
    for _ in range(5):
        n = await ctx.step(harmless, n)
        await ctx.sleep(0.3)
    return n


WORKFLOWS = [doomed, innocent]
STEPS = ()
