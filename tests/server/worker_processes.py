"""Workers in processes of their own, with workflows that the test's process does not have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepwell import Engine
from tests.engines import until

LISTENING = """
from stepwell import Context, step, workflow

@step
async def double(number: int) -> int:
    return number * 2

@workflow
async def hearing(ctx: Context, count: int) -> int:
    for _ in range(count):
        await ctx.signal("word")
    return await ctx.step(double, count)
"""


@contextmanager
def workers(
    folder: Path, database: str, count: int = 1, *, environment: dict[str, str] | None = None
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Worker processes that run `flows.py` of the folder, stopped at the end."""
    command = [sys.executable, "-m", "stepwell", "worker", "flows.py", "--database", database]
    processes = [
        subprocess.Popen(
            command, cwd=folder, env={**os.environ, **(environment or {})}, stderr=subprocess.DEVNULL
        )
        for _ in range(count)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(timeout=60)


async def at_work(engine: Engine, count: int = 1) -> None:
    """Wait until that many workers are there."""

    async def there() -> Any:
        return len(await engine.workers()) >= count

    await until(there)
