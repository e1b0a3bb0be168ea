"""Fleet: the worker processes. Each host runs one process after another."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

from stepwell.app import Engine
from stepwell.errors import InvalidRequest, StoreError
from tests.simulation.simulator.changes import RELEASES
from tests.simulation.simulator.contests import CONTESTS
from tests.simulation.simulator.listeners import LISTENERS
from tests.simulation.simulator.loop import Process, SimLoop
from tests.simulation.simulator.machines import MACHINES
from tests.simulation.simulator.names import SeededIds, SkewedClock
from tests.simulation.simulator.network import Network, faulty_store
from tests.simulation.simulator.operators import OPERATED
from tests.simulation.simulator.plan import WORKERS, Plan
from tests.simulation.simulator.workflows import FAR, REMOTE_STEPS, WORKFLOWS

# Which queues each host serves: all of them, all but the remote steps, only the remote steps.
_QUEUES = (("default", FAR), ("default",), ("default", FAR))


class Host:
    def __init__(self, number: int) -> None:
        self.number = number
        self.lives = 0
        self.release = 0
        self.process = Process(f"w{number}.0")
        self.engine: Engine | None = None
        self.stopping = False


class Fleet:
    def __init__(self, plan: Plan, loop: SimLoop, network: Network) -> None:
        self._plan = plan
        self._loop = loop
        self._network = network
        self.hosts = [Host(number) for number in range(WORKERS)]
        self.release = 0  # of the changing workflow: the code of a process that boots now
        self.engines: list[Engine] = []  # of all processes: dead ones keep their memory

    def boot(self, host: Host) -> None:
        """Start a new process on this host."""
        if not host.process.dead and host.lives:
            return
        host.lives += 1
        host.stopping = False
        host.release = self.release
        host.process = Process(f"w{host.number}.{host.lives}")
        host.engine = None
        self._network.trace(host.process, "boot")
        self._loop.spawn(host.process, self._live(host, host.process))

    async def _live(self, host: Host, process: Process) -> None:
        """Restart it after an outage of the store, as a supervisor would."""
        plan = self._plan
        rng = random.Random(f"{process.name}/{plan.seed}")
        clock = SkewedClock(self._loop, skew=plan.skew * (2 * rng.random() - 1), uptime=1e6 * rng.random())
        store = faulty_store(self._network, process)
        ids = SeededIds(rng, self._loop)
        while True:
            engine = Engine(
                store,
                workflows=(*WORKFLOWS, *CONTESTS, *LISTENERS, *MACHINES, *OPERATED, RELEASES[host.release]),
                steps=REMOTE_STEPS,
                queues=_QUEUES[host.number],
                settings=replace(plan.settings, slots=plan.slots[host.number]),
                clock=clock,
                ids=ids,
                replay_always=plan.replay_always,
            )
            self.engines.append(engine)
            try:
                await engine.open()
                break
            except StoreError:
                await asyncio.sleep(0.5)
        host.engine = engine

    def start(self, workflow: Any, input: Any, key: str) -> asyncio.Task[Any] | None:
        """Let a running process start a run; None if there is none."""
        up = [host for host in self.hosts if host.engine is not None and not host.process.dead]
        if not up:
            return None
        host = up[sum(key.encode()) % len(up)]
        return self._loop.spawn(host.process, self._started(host, workflow, input, key))

    async def _started(self, host: Host, workflow: Any, input: Any, key: str) -> None:
        assert host.engine is not None
        try:
            await host.engine.start(workflow, input, key=key)
        except StoreError:
            pass  # its client starts it at the store with the same key
        except InvalidRequest:
            if not host.stopping:  # otherwise its engine is already closed
                raise

    def crash(self, host: Host) -> None:
        if not host.process.dead:
            self._network.crash(host.process)

    async def restart(self, host: Host) -> None:
        """Stop gracefully, then boot; a process that cannot stop in time is killed."""
        process, engine = host.process, host.engine
        if engine is None or process.dead or process.frozen:
            return
        self._network.trace(process, "stop")
        host.stopping = True
        task = self._loop.spawn(process, engine.close())
        for _ in range(100):
            await asyncio.sleep(0.2)
            if task.done() or process.dead:
                break
        if not process.dead:
            self._loop.crash(process)
        self.boot(host)

    def starting(self, process: Process) -> bool:
        """Whether it is still trying to open its engine."""
        return any(host.process is process and host.engine is None for host in self.hosts)

    def heal(self) -> None:
        """Bring every host up again."""
        for host in self.hosts:
            self._loop.thaw(host.process)
            if host.stopping or host.release != self.release:
                self.crash(host)
            if host.process.dead:
                self.boot(host)
