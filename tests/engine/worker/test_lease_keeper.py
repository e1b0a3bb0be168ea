"""Heartbeats that a store does not answer: asked again soon, told of now and then."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.domain.commit import Beat, WorkerInfo
from stepwell.domain.ids import WorkerId
from stepwell.engine.worker.leases import LeaseKeeper
from stepwell.errors import StoreUnavailable
from stepwell.store.memory import MemoryStore
from stepwell.testing.clock import FakeClock
from tests.engines import until


class Away(MemoryStore):
    """Does not answer heartbeats while it is away."""

    away = True
    asked = 0

    async def heartbeat(self, worker: WorkerId) -> Beat | None:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("away")
        return await super().heartbeat(worker)

    async def beats(self, more: int = 5) -> None:
        until_asked = self.asked + more
        await until(lambda: self.asked >= until_asked)


async def _reaped() -> None:
    raise AssertionError("nobody reaps here")


@pytest.mark.req("K4")
async def test_an_outage_is_told_once_in_ten_seconds_and_the_next_one_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    store = Away(clock)
    info = WorkerInfo(id=WorkerId("w"), name="w", queues=("default",), needs=(), lease_seconds=1000)
    keeper = LeaseKeeper(
        store, clock, info, heartbeat_seconds=0.004, holding=dict, owned=lambda *_: None, reaped=_reaped
    )
    await keeper.register(info)
    running = asyncio.create_task(keeper.run())

    def told() -> int:
        return [record.message for record in caplog.records].count("heartbeat not answered: away")

    await store.beats()
    assert told() == 1
    clock.advance(9.9)
    await store.beats()
    assert told() == 1
    clock.advance(0.1)
    await store.beats()
    assert told() == 2
    store.away = False
    await store.beats()
    store.away = True
    await store.beats()
    assert told() == 3

    running.cancel()
    await asyncio.wait({running})
