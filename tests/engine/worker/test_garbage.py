"""While a worker runs, collections of garbage skip what was loaded before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from stepwell import Context, workflow
from tests.engines import Engines


@workflow
async def nothing(ctx: Context) -> str:
    return "done"


@pytest.fixture(autouse=True)
def _nothing_skipped() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.freeze()  # as it is for all tests: tests/conftest.py


async def test_what_was_loaded_is_skipped_until_the_worker_ends(memory_engines: Engines) -> None:
    async with memory_engines.client() as client:
        assert client.worker is None
        assert gc.get_freeze_count() == 0, "without a worker, nothing is skipped"
    async with memory_engines.new(nothing) as engine:
        await engine.run(nothing)
        assert gc.get_freeze_count() > 1000
        async with memory_engines.new(nothing) as other:
            await other.run(nothing)
        assert gc.get_freeze_count() > 1000, "the other worker changed nothing"
    assert gc.get_freeze_count() == 0


async def test_what_a_program_chose_to_skip_stays_its_choice(memory_engines: Engines) -> None:
    gc.freeze()
    async with memory_engines.new(nothing) as engine:
        await engine.run(nothing)
    assert gc.get_freeze_count() > 1000
