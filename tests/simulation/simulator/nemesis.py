"""Nemesis: crashes, freezes, outages and restarts, at times that the seed chose."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.checker.evidence import Fault
from tests.simulation.simulator.fleet import Fleet, Host
from tests.simulation.simulator.network import Network
from tests.simulation.simulator.plan import PHASE_SECONDS, Plan


class Nemesis:
    def __init__(self, plan: Plan, network: Network, fleet: Fleet) -> None:
        self._plan = plan
        self._network = network
        self._fleet = fleet
        self._rng = random.Random(f"nemesis/{plan.seed}")

    async def run(self) -> None:
        """Inject all faults of the plan at their times; returns when the last is over."""
        plan = self._plan
        faults: list[Callable[[], Coroutine[Any, Any, None]]] = [
            *[self._crash] * plan.crashes,
            *[self._kill] * plan.kills,
            *[self._freeze] * plan.freezes,
            *[self._outage] * plan.outages,
            *[self._stop] * plan.stops,
        ]
        self._rng.shuffle(faults)
        times = sorted(PHASE_SECONDS * self._rng.random() ** 1.5 for _ in faults)
        async with asyncio.TaskGroup() as group:
            for at, fault in zip(times, faults, strict=True):
                group.create_task(self._at(at, fault))

    async def _at(self, seconds: float, fault: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await asyncio.sleep(seconds)
        await fault()

    def _victim(self) -> Host:
        return self._rng.choice(self._fleet.hosts)

    async def _crash(self) -> None:
        host = self._victim()
        self._fleet.crash(host)
        await asyncio.sleep(self._rng.choice((0.0, 0.5, 3.0)) * self._rng.random())
        self._fleet.boot(host)

    async def _kill(self) -> None:
        """Power cut exactly before or after one of its next store calls is executed."""
        host = self._victim()
        process = host.process
        self._network.kills[process.name] = (self._rng.randint(1, 12), self._rng.random() < 0.5)
        for _ in range(100):
            await asyncio.sleep(0.1)
            if process.dead or host.process is not process:
                break
        self._network.kills.pop(process.name, None)
        if process.dead:
            await asyncio.sleep(self._rng.random())
            self._fleet.boot(host)

    async def _freeze(self) -> None:
        """SIGSTOP, often past the lease, then SIGCONT."""
        host = self._victim()
        process = host.process
        seconds = self._plan.settings.lease_seconds * self._rng.choice((0.3, 1.2, 2.5))
        network = self._network
        network.counts["freeze"] += 1
        network.trace(process, "freeze")
        now = network.now()
        network.faults.append(Fault("freeze", now, now + seconds, process.name, costly=True))
        network.loop.freeze(process)
        await asyncio.sleep(seconds)
        network.trace(process, "thaw")
        network.loop.thaw(process)

    async def _outage(self) -> None:
        seconds = self._plan.settings.lease_seconds * self._rng.choice((0.3, 1.0, 2.0))
        network = self._network
        network.counts["outage"] += 1
        network.trace(network.process, "outage")
        now = network.now()
        network.faults.append(Fault("outage", now, now + seconds, "", costly=True))
        network.outage = True
        await asyncio.sleep(seconds)
        network.outage = False
        network.trace(network.process, "the store is back")

    async def _stop(self) -> None:
        """A deploy: SIGTERM and a new process. Not a fault: nothing may be repeated."""
        host = self._victim()
        self._network.counts["stop"] += 1
        await self._fleet.restart(host)
