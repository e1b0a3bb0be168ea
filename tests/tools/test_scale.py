"""The measurement of lists with many runs still runs, and finds what it loaded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stepwell.store.sqlite.store import SqliteStore
from tools import scale


@pytest.mark.req("K40")
def test_every_question_finds_something(tmp_path: Path) -> None:
    async def story() -> dict[str, int]:
        store = SqliteStore(tmp_path / "scale.db")
        await store.open()
        try:
            scale.fill_sqlite(store.path, 1, 2000)
            return {name: len(await ask(store)) for name, ask in scale.QUESTIONS.items()}
        finally:
            await store.close()

    found = asyncio.run(story())

    assert [name for name, rows in found.items() if rows == 0] == []
    assert found["list page"] == scale.PAGE


@pytest.mark.slow
@pytest.mark.req("K40")
def test_more_runs_cost_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    few, many = asyncio.run(scale.measure_sqlite(500, 20_000))

    scale.report("sqlite", few, many)

    assert "many/few" in capsys.readouterr().out
    assert {name: many[name] for name in many if many[name] > 10 * few[name] + 1} == {}
