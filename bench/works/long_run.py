"""W7, one long run: is its thousandth step as fast as its hundredth; W7r, its recovery after kill -9."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median

from bench.measure import Sizes
from bench.works.figures import Figures
from bench.works.flows import FLOWS, HOLD, Gate, finished, gates, long_recovery, long_run, short_run
from bench.works.worker import workers
from stepwell import Engine, RunHandle, Settings
from stepwell.domain.commit import ClaimRequest, Claims
from stepwell.store.base import Store
from stepwell.store.open import open_store

ROUNDS = 9
LOOK_SECONDS = 0.05
PATIENCE_SECONDS = 120.0
# Only the wait for the dead worker's lease gets shorter by these, and that wait is not measured.
LEASE = {"lease_seconds": 2.0, "heartbeat_seconds": 0.5, "reap_seconds": 0.5}
LEASE_ENV = {f"STEPWELL_{name.upper()}": str(value) for name, value in LEASE.items()}


async def flatness(place: str, sizes: Sizes) -> list[Figures]:
    """A run that nears its end and a new one in turn, so that both meet the machine at the same pace.

    Five seconds lie between step 100 and step 5,000 of one run, in which a shared machine changes more
    than any engine does.
    """
    late, early = [], []
    rounds = min(ROUNDS, sizes.long_steps // sizes.window)
    plan = {"before": sizes.long_steps - rounds * sizes.window, "rounds": rounds, "window": sizes.window}
    async with Engine(place, workflows=FLOWS) as engine:
        gate = gates["long"] = Gate()
        handle = await engine.start(long_run, plan, key="long")
        await gate.reached.wait()
        for _ in range(rounds):
            finished.clear()
            await engine.run(short_run, sizes.window * 3 // 2)
            early.append(_rate(finished[-sizes.window :]))
            finished.clear()
            gate.let_through()
            await gate.reached.wait()
            late.append(_rate(finished))
        gate.let_through()
        assert await handle.result() == {"n": sizes.long_steps}
    values = {
        "steps_per_second_early": median(early),
        "steps_per_second_late": median(late),
        "flatness": median([at_end / at_start for at_end, at_start in zip(late, early, strict=True)]),
    }
    return [Figures(values=values, settings={"steps": sizes.long_steps, "rounds": rounds})]


def _rate(times: Sequence[float]) -> float:
    return (len(times) - 1) / (times[-1] - times[0])


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
