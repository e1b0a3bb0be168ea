"""Work that stands still while it holds SQLite's write lock, and work that only wants to begin."""

from __future__ import annotations

import os
import signal
from typing import Any

from stepwell import Context, step, workflow


@step(transactional=True)
def stand_still(connection: Any) -> int:
    connection.execute("CREATE TABLE IF NOT EXISTS mine (value)")
    os.kill(os.getpid(), signal.SIGSTOP)
    return 1


@workflow
async def stands_still(ctx: Context) -> int:
    return await ctx.step(stand_still)


@workflow
async def quick(ctx: Context) -> int:
    return 1


WORKFLOWS = [stands_still, quick]
STEPS = ()
