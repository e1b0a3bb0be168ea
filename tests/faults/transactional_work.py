"""A transactional step that is slow enough for the database to die under it."""

from __future__ import annotations

import asyncio
from typing import Any

from stepwell import Context, step, workflow
from tests.faults.workload import KEPT_TABLE


@step(transactional=True)
async def keep_slowly(connection: Any, run: str, value: int) -> int:
    await connection.execute(f"INSERT INTO {KEPT_TABLE} (run, value) VALUES ($1, $2)", run, value)
    await asyncio.sleep(0.6)
    await connection.fetchval("SELECT 1")
    return value + 1


@workflow
async def keeping_slowly(ctx: Context, n: int) -> int:
    return await ctx.step(keep_slowly, ctx.run_id, n)


WORKFLOWS = [keeping_slowly]
STEPS = ()
