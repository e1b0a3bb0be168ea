"""A step that lasts until a file exists, and records each time it begins."""

from __future__ import annotations

import time
from pathlib import Path

from stepwell import Context, step, workflow


@step
def wait_for(begun: str, gate: str) -> str:
    with open(begun, "a", encoding="ascii") as file:
        file.write("x")
    while not Path(gate).exists():
        time.sleep(0.02)
    return "done"


@workflow
async def outlasts(ctx: Context, files: list[str]) -> str:
    return await ctx.step(wait_for, *files)


WORKFLOWS = [outlasts]
STEPS = ()
