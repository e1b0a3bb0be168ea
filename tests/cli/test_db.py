"""`stepwell db`: what operators ask of a database."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from stepwell import Context, Engine, workflow
from stepwell.cli import main


@workflow
async def doubling(ctx: Context, n: int) -> int:
    return 2 * n


@pytest.fixture
def database(tmp_path: Path) -> str:
    async def prepare() -> None:
        async with Engine(tmp_path / "a.db", workflows=[doubling]) as engine:
            for n in range(12):
                await engine.run(doubling, n)

    asyncio.run(prepare())
    return str(tmp_path / "a.db")


@pytest.mark.req("C1", "C2")
def test_a_database_is_inspected_backed_up_and_pruned(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--database", database]
    copy = str(tmp_path / "copy.db")

    assert main(["db", "info", "--json", *here]) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["counts"]["runs"] == 12
    assert about["schema"] == about["newest"]
    assert main(["db", "info", *here]) == 0
    assert "runs" in capsys.readouterr().out
    assert main(["db", "check", *here]) == 0
    assert "is sound" in capsys.readouterr().err
    assert main(["db", "backup", copy, "--json", *here]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] > 0
    assert main(["db", "backup", copy, *here]) == 4
    assert "nothing was written" in capsys.readouterr().err
    assert main(["db", "prune", "--older-than", "0s", *here]) == 2
    assert main(["db", "prune", "--older-than", "1ms", "--yes", "--json", *here]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 12
    assert main(["runs", "list", "--json", *here]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["runs", "list", "--json", "--database", copy]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 12
    assert main(["db", "upgrade", *here]) == 0
    assert "are current" in capsys.readouterr().err
    assert main(["db", "upgrade", "--database", str(tmp_path / "none.db")]) == 2
    assert not (tmp_path / "none.db").exists()
