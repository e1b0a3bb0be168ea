"""Many schedules at one instant, two schedulers, one of them killed: each slot starts once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.engines import Engines
from tools import schedules


@pytest.mark.slow
@pytest.mark.req("T1")
def test_each_slot_starts_once_on_postgres_though_a_scheduler_is_killed(postgres: Engines) -> None:
    """BI-S08."""
    assert isinstance(postgres.database, str)

    assert asyncio.run(schedules.measured(postgres.database, 3000))


@pytest.mark.slow
@pytest.mark.req("T1")
def test_each_slot_starts_once_on_sqlite_though_a_scheduler_is_killed(tmp_path: Path) -> None:
    """BI-S08."""
    assert asyncio.run(schedules.measured(str(tmp_path / "herd.db"), 3000))
