"""A step that holds the loop for longer than a lease: the run fails for that, not for a crash."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stepwell import Context, step, workflow
from stepwell.engine.worker import loop_monitor
from stepwell.errors import RunFailed
from tests.engines import SHORT_LEASE, Engines

HELD_SECONDS = 4.0  # several leases


@step
async def stare() -> None:
    threading.Event().wait(HELD_SECONDS)


@workflow
async def staring(ctx: Context, _: None) -> None:
    await ctx.step(stare)


@contextmanager
def workers(engines: Engines, count: int) -> Iterator[None]:
    """Each with a loop of its own: what holds one does not hold the others."""
    over = threading.Event()

    async def work() -> None:
        async with engines.new(staring, settings=SHORT_LEASE):
            await asyncio.to_thread(over.wait)

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@pytest.mark.slow
@pytest.mark.req("K33")
async def test_a_step_that_holds_the_loop_is_named(
    durable_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_monitor, "_LOOK_SECONDS", 0.3)
    async with durable_engines.client() as client:
        run = await client.start(staring, None)
        with workers(durable_engines, 3), pytest.raises(RunFailed) as failed:
            await run.result(60)

    assert failed.value.cause_code == "LOOP_HELD"
    assert "0/stare#1 held the loop of its worker" in failed.value.message
    assert "a plain def" in failed.value.hint
