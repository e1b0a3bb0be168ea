"""Fleet: the worker processes. Each seat is a machine on which one process after another lives."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

from stepwell.app import Engine
from stepwell.errors import InvalidRequest, StoreError
from tests.simulation.simulator.changes import RELEASES
from tests.simulation.simulator.contests import CONTESTS
from tests.simulation.simulator.faulty import FaultyStore, Network
from tests.simulation.simulator.listeners import LISTENERS
from tests.simulation.simulator.loop import Process, SimLoop
from tests.simulation.simulator.machines import MACHINES
from tests.simulation.simulator.names import SeededIds, SkewedClock
from tests.simulation.simulator.plan import WORKERS, Plan
from tests.simulation.simulator.workflows import FAR, REMOTE_STEPS, WORKFLOWS

# Which queues each seat serves: one of everything, one without and one with only remote steps.
_QUEUES = (("default", FAR), ("default",), ("default", FAR))


class Seat:
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
        self.seats = [Seat(number) for number in range(WORKERS)]
        self.release = 0  # of the workflow that changes: what a process that boots has
        self.engines: list[Engine] = []  # of all lives: the dead ones keep their memory

    def boot(self, seat: Seat) -> None:
        """A new process on this seat."""
        if not seat.process.dead and seat.lives:
            return
        seat.lives += 1
        seat.stopping = False
        seat.release = self.release
        seat.process = Process(f"w{seat.number}.{seat.lives}")
        seat.engine = None
        self._network.trace(seat.process, "boot")
        self._loop.spawn(seat.process, self._live(seat, seat.process))

    async def _live(self, seat: Seat, process: Process) -> None:
        """A supervisor would start it again when the store was away; so does this."""
        plan = self._plan
        rng = random.Random(f"{process.name}/{plan.seed}")
        clock = SkewedClock(self._loop, skew=plan.skew * (2 * rng.random() - 1), uptime=1e6 * rng.random())
        store = FaultyStore(self._network, process)
        ids = SeededIds(rng, self._loop)
        while True:
            engine = Engine(
                store,
                workflows=(*WORKFLOWS, *CONTESTS, *LISTENERS, *MACHINES, RELEASES[seat.release]),
                steps=REMOTE_STEPS,
                queues=_QUEUES[seat.number],
                settings=replace(plan.settings, slots=plan.slots[seat.number]),
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
        seat.engine = engine

    def start(self, workflow: Any, input: Any, key: str) -> asyncio.Task[Any] | None:
        """A process that is up starts a run; None: there is none."""
        up = [seat for seat in self.seats if seat.engine is not None and not seat.process.dead]
        if not up:
            return None
        seat = up[sum(key.encode()) % len(up)]
        return self._loop.spawn(seat.process, self._started(seat, workflow, input, key))

    async def _started(self, seat: Seat, workflow: Any, input: Any, key: str) -> None:
        assert seat.engine is not None
        try:
            await seat.engine.start(workflow, input, key=key)
        except StoreError:
            pass  # whoever asked for it asks the store with the same key
        except InvalidRequest:
            if not seat.stopping:  # else its engine is closed already
                raise

    def crash(self, seat: Seat) -> None:
        if not seat.process.dead:
            self._network.crash(seat.process)

    async def restart(self, seat: Seat) -> None:
        """Stop gracefully, then boot; a process that cannot stop in time is killed."""
        process, engine = seat.process, seat.engine
        if engine is None or process.dead or process.frozen:
            return
        self._network.trace(process, "stop")
        seat.stopping = True
        task = self._loop.spawn(process, engine.close())
        for _ in range(100):
            await asyncio.sleep(0.2)
            if task.done() or process.dead:
                break
        if not process.dead:
            self._loop.crash(process)
        self.boot(seat)

    def starting(self, process: Process) -> bool:
        """It is still trying to open its engine."""
        return any(seat.process is process and seat.engine is None for seat in self.seats)

    def heal(self) -> None:
        """Everybody is up again."""
        for seat in self.seats:
            self._loop.thaw(seat.process)
            if seat.stopping or seat.release != self.release:
                self.crash(seat)
            if seat.process.dead:
                self.boot(seat)
