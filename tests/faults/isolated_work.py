"""Steps in processes of their own that hang, crash and outstay their welcome."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from stepwell import Context, Workflow, step, workflow


@step(isolation="process")
def square(n: int) -> int:
    return n * n


@step(isolation="process", timeout=1.0)
def hang(file: str) -> int:
    Path(file).write_text(str(os.getpid()), encoding="ascii")
    time.sleep(600)
    return 0


@step(isolation="process")
def leave(code: int) -> int:
    os._exit(code)


@step(isolation="process")
def segfault(n: int) -> int:
    os.kill(os.getpid(), signal.SIGSEGV)
    return n


@step(isolation="process")
def outstay(file: str) -> int:
    Path(file).write_text(str(os.getpid()), encoding="ascii")
    time.sleep(600)
    return 0


@workflow
async def squares(ctx: Context, n: int) -> int:
    return await ctx.step(square, n)


@workflow
async def hangs(ctx: Context, file: str) -> int:
    return await ctx.step(hang, file)


@workflow
async def leaves(ctx: Context, code: int) -> int:
    return await ctx.step(leave, code)


@workflow
async def segfaults(ctx: Context, n: int) -> int:
    return await ctx.step(segfault, n)


@workflow
async def outstays(ctx: Context, file: str) -> int:
    return await ctx.step(outstay, file)


WORKFLOWS: list[Workflow[Any, int]] = [squares, hangs, leaves, segfaults, outstays]
STEPS = ()
