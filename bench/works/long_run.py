"""W7, one long run: is its thousandth step as fast as its hundredth; W7r, its recovery after kill -9."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from bench.measure import Sizes, rates
from bench.works.figures import Figures
from bench.works.flows import FLOWS, HOLD, finished, long_recovery, long_run, steps_in_turn
from bench.works.worker import workers
from stepwell import Engine, RunHandle, Settings
from stepwell.domain.commit import ClaimRequest, Claims
from stepwell.store.base import Store
from stepwell.store.open import open_store

LOOK_SECONDS = 0.05
PATIENCE_SECONDS = 120.0
# Only the wait for the dead worker's lease gets shorter by these, and that wait is not measured.
LEASE = {"lease_seconds": 2.0, "heartbeat_seconds": 0.5, "sweep_seconds": 0.5}
LEASE_ENV = {f"STEPWELL_{name.upper()}": str(value) for name, value in LEASE.items()}


async def flatness(place: str, sizes: Sizes) -> list[Figures]:
    async with Engine(place, workflows=FLOWS) as engine:
        await engine.run(steps_in_turn, sizes.window)
        finished.clear()
        assert await engine.run(long_run, sizes.long_steps) == {"n": sizes.long_steps}
    found = rates(finished, sizes)
    found["flatness"] = found["steps_per_second_late"] / found["steps_per_second_early"]
    return [Figures(values=found, settings={"steps": sizes.long_steps})]


async def recovery(place: str, sizes: Sizes) -> list[Figures]:
    """From sending the claim that gets the killed worker's run until its result is here.

    In between: the lease taken, the log read and decoded, every recorded step replayed, the step that
    the kill interrupted announced and run again, the end committed. Not in it: the wait for the lease.
    """
    with workers(place, env={HOLD: "1", **LEASE_ENV}) as (victim,):
        async with Engine(place, worker=False) as client:
            handle = await client.start(long_recovery, sizes.long_steps)
            await _recorded(client.store, handle, sizes.long_steps)
            victim.kill()

    store = open_store(place)
    watch = ClaimWatch(store)
    async with Engine(store, workflows=FLOWS, settings=Settings(**LEASE)) as engine:  # type: ignore[arg-type]
        result = await engine.handle(handle.id, long_recovery).result(PATIENCE_SECONDS)
        ended = time.perf_counter()
    assert result == "recovered"
    return [Figures(values={"seconds": ended - watch.taken_at}, settings={"steps": sizes.long_steps})]


class ClaimWatch:
    """Stands before the store's `claim` and keeps when the one that got something was sent."""

    def __init__(self, store: Store) -> None:
        self._claim: Callable[[ClaimRequest], Awaitable[Claims]] = store.claim
        self.taken_at = 0.0
        store.claim = self.claim  # type: ignore[method-assign]  # the one look that must not change anything

    async def claim(self, request: ClaimRequest) -> Claims:
        sent = time.perf_counter()
        found = await self._claim(request)
        if found.claims and not self.taken_at:
            self.taken_at = sent
        return found


async def _recorded(store: Store, handle: RunHandle[str], steps: int) -> None:
    """Until the log has all steps; its first two events say that the run was accepted and claimed."""
    limit = time.monotonic() + PATIENCE_SECONDS
    while not await store.read_log(handle.id, after=steps + 1, limit=1):
        assert time.monotonic() < limit, "the steps were not recorded in time"
        await asyncio.sleep(LOOK_SECONDS)
