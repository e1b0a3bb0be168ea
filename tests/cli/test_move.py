"""`stepwell move`: a file goes to PostgreSQL, and its runs continue there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from stepwell import Context, Engine, workflow
from tests.cli.program import run
from tests.engines import suspended


@workflow
async def asking(ctx: Context, n: int) -> int:
    return n + await ctx.signal("more", int)


@pytest.mark.slow
@pytest.mark.req("C1", "D6")
def test_runs_continue_after_the_move(tmp_path: Path, postgres_url: str) -> None:
    async def prepared() -> str:
        async with Engine(tmp_path / "app.db", workflows=[asking]) as engine:
            handles = await engine.start_many(asking, range(2, 14))
            for handle in handles:
                await suspended(handle)
            return handles[0].id

    async def continued(run_id: str) -> int:
        async with Engine(postgres_url, workflows=[asking]) as engine:
            await engine.handle(run_id).signal("more", 40)
            return await engine.handle(run_id, asking).result(30)

    run_id = asyncio.run(prepared())
    asked = run("move", "app.db", postgres_url, folder=tmp_path)
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    missing = run("move", "none.db", postgres_url, "--yes", folder=tmp_path)
    assert missing.returncode == 2

    moved = run("move", "app.db", postgres_url, "--yes", "--json", folder=tmp_path)

    assert moved.returncode == 0, moved.stderr
    assert "runs: 12 of 12" in moved.stderr  # in a terminal: a bar
    told = json.loads(moved.stdout)
    assert (told["runs"], told["unfinished"]) == (12, 12)
    assert asyncio.run(continued(run_id)) == 42
    left = run("runs", "list", "--database", "app.db", folder=tmp_path)
    assert left.returncode == 2
    assert "hint" in left.stderr
