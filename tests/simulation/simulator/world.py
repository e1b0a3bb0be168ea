"""World: simulates one seed, from the first event to the checker's verdict."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stepwell.client import Client
from stepwell.errors import StoreError
from stepwell.store.memory import MemoryStore
from stepwell.testing.clock import BEGIN
from tests.simulation.checker.checker import check
from tests.simulation.checker.effects import repeats
from tests.simulation.checker.evidence import Emitted, Evidence, History, Violation, Wanted, entry_of_row
from tests.simulation.simulator import changes
from tests.simulation.simulator.clients import SimulatedClients
from tests.simulation.simulator.fleet import Fleet
from tests.simulation.simulator.ledger import Ledger, LedgerLoop
from tests.simulation.simulator.loop import Process, Stalled, close_quietly
from tests.simulation.simulator.names import SeededIds
from tests.simulation.simulator.nemesis import Nemesis
from tests.simulation.simulator.network import Network, faulty_store
from tests.simulation.simulator.plan import PHASE_SECONDS, Chances, Plan, plan_of
from tests.simulation.simulator.shapes import PROBE, SHAPES, Shape

_END_SECONDS = 150.0  # everything must have ended within this time after healing

MakeStore = Callable[[Callable[[], float]], MemoryStore]


@dataclass(slots=True)
class Report:
    """The outcome of one seed."""

    seed: int
    trace: str
    violations: list[Violation]
    faults: Counter[str] = field(default_factory=Counter)
    virtual_seconds: float = 0.0
    handles: int = 0
    operations: int = 0
    executions: int = 0
    repeats: int = 0
    runs: int = 0
    lines: list[str] = field(default_factory=list)


class ErrorLog(logging.Handler):
    """Collects the errors that the engine logs: each counts as a violation."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []
        self.starting: Callable[[], bool] = lambda: False

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, StoreError) and self.starting():
            return  # without a store there is no worker: the supervisor starts it again
        self.texts.append(f"{record.getMessage()}: {error!r}")


class World:
    def __init__(
        self, plan: Plan, make_store: MakeStore, shapes: Sequence[Shape], *, verbose: bool = False
    ) -> None:
        self.plan = plan
        self._shapes = shapes
        self._deploys = shapes is changes.CHANGES
        chance = random.Random(f"loop/{plan.seed}")
        self.loop = LedgerLoop(chance, shuffles=plan.shuffles)  # type: ignore[abstract]  # no sockets, no threads
        self.store = make_store(lambda: BEGIN + self.loop.time())
        self.network = Network(self.loop, self.store, plan, verbose=verbose)
        self.loop.ledger = self.ledger = Ledger(self.loop, random.Random(f"ledger/{plan.seed}"))
        self.fleet = Fleet(plan, self.loop, self.network)
        self.nemesis = Nemesis(plan, self.network, self.fleet)
        self._clients_process = Process("clients")
        self._nemesis_process = Process("nemesis")
        rng = random.Random(f"people/{plan.seed}")  # the name is part of the seed
        ids = SeededIds(rng, self.loop)
        client = Client(faulty_store(self.network, self._clients_process), ids)
        self.clients = SimulatedClients(client, rng, self.fleet.start)

    async def run(self) -> None:
        plan = self.plan
        for host in self.fleet.hosts:
            self.fleet.boot(host)
        rng = random.Random(f"shapes/{plan.seed}")
        clients = self.clients
        for number in range(plan.runs):
            self.loop.spawn(self._clients_process, clients.use(rng.choice(self._shapes), number))
        trouble = self.loop.spawn(self._nemesis_process, self.nemesis.run())
        if self._deploys:
            deploys = changes.deploy(self.fleet, random.Random(f"deploys/{plan.seed}"))
            self.loop.spawn(self._nemesis_process, deploys)
        while self.loop.time() < PHASE_SECONDS or not trouble.done():
            await asyncio.sleep(0.5)
            if self._over():
                break
        self._heal()
        probe = self.loop.spawn(self._clients_process, clients.use(PROBE, plan.runs))
        end = self.loop.time() + _END_SECONDS
        while not (self._over() and probe.done()):
            await asyncio.sleep(0.5)
            if self.loop.time() > end:
                break

    def _over(self) -> bool:
        return not self.clients.busy and not self.store._tickets and bool(self.store._runs)

    def _heal(self) -> None:
        self.loop.crash(self._nemesis_process)  # drop the faults that it had not injected yet
        self.network.chances = Chances()
        self.network.kills.clear()
        self.network.outage = False
        self.clients.healed = True
        if self._deploys:
            self.fleet.release = len(changes.RELEASES) - 1
        self.fleet.heal()
        self.network.trace(self.network.process, "healed")

    def evidence(self) -> Evidence:
        store = self.store
        histories = []
        for run_id, run in store._runs.items():
            output = msgspec.json.decode(run.row.output) if run.row.output is not None else None
            entries = [entry_of_row(row) for row in run.log]
            histories.append(History(run_id, entries, str(run.row.status), output))
        clients = self.clients
        wanted = dict(clients.wanted)
        for history in histories:  # children of a cancelled parent, and those that always fail
            if history.run not in wanted:
                wanted[history.run] = _child_wanted(history)
        return Evidence(
            histories=histories,
            executions=self.ledger.rows,
            faults=self.network.faults,
            accepted=clients.accepted,
            wanted=wanted,
            signals=clients.signals,
            decisions=clients.decisions,
            operated=clients.operated,
            emitted=[Emitted(e.id, e.name, e.key, e.at) for e in store._published.values()],
            seen=clients.seen,
            looks=clients.looks,
            leftovers=[
                *(f"ticket {key}" for key in store._tickets),
                *(f"inbox {run} {list(box)}" for run, box in store._inbox.items() if box),
                *(f"wait {key}" for key in store._waits),
            ],
            refused=clients.refused,
            claims_late=self.network.claims_late,
            lease_seconds=self.plan.settings.lease_seconds,
        )

    def dispose(self) -> None:
        """Dismantle the world without letting its code run."""
        for engine in self.fleet.engines:
            if engine.worker is not None:
                engine.worker.forget()
                for work in engine.worker.active.values():
                    loop = getattr(work, "loop", None)
                    for task in list(loop._scopes) if loop is not None else ():
                        close_quietly(task)
                engine.worker.active.clear()
        self.loop.dispose()


def _child_wanted(history: History) -> Wanted:
    name = history.accepted.get("workflow", "")
    if name == "hopeless":
        return Wanted(("failed",))
    if name == "errand":  # detached: nothing may stop it; nobody retries it if its workers die
        return Wanted(("completed", "failed") if _crashed(history) else ("completed",))
    if name == "cancelled":
        return Wanted(("cancelled", "failed"))
    return Wanted(("completed", "cancelled", "failed"))


def _crashed(history: History) -> bool:
    return bool(history.entries) and history.entries[-1].data.get("error", {}).get("code") == "WORKER_CRASHED"


def simulate(
    seed: int,
    make_store: MakeStore = MemoryStore,
    shapes: Sequence[Shape] = SHAPES,
    *,
    verbose: bool = False,
) -> Report:
    """Run one seed over runs of these shapes and check it."""
    plan = plan_of(seed)
    error_log = ErrorLog()
    logger = logging.getLogger("stepwell")
    before = (logger.level, logger.propagate, logger.disabled)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(error_log)
    knobs = _turn_knobs(plan)
    world = World(plan, make_store, shapes, verbose=verbose)
    error_log.starting = lambda: world.fleet.starting(world.loop.current)
    violations: list[Violation] = []
    try:
        world.loop.run(world.run())
    except Stalled as error:
        violations.append(Violation("I1", "", str(error)))
    finally:
        logger.removeHandler(error_log)
        logger.setLevel(before[0])
        logger.propagate = before[1]
        _turn_back(knobs)
    evidence = world.evidence()
    violations += check(evidence)
    violations += [Violation("ENGINE", "", text) for text in [*error_log.texts, *world.loop.errors]]
    report = Report(
        seed=seed,
        trace=world.network.trace_hash,
        violations=violations,
        faults=world.network.counts,
        virtual_seconds=world.loop.time(),
        handles=world.loop.handles,
        operations=world.network.calls,
        executions=len(world.ledger.rows),
        repeats=repeats(evidence),
        runs=len(evidence.histories),
        lines=world.network.lines or [],
    )
    world.dispose()
    return report


Knob = tuple[Any, str, Any]


def _turn_knobs(plan: Plan) -> list[Knob]:
    """Set the engine's constants that a seed may vary."""
    from stepwell.engine.worker import committer, worker

    wanted = ((committer, "BATCH_MEMBERS_MAX", plan.batch), (worker, "_LOOK_SECONDS", plan.look_seconds))
    before: list[Knob] = [(module, name, getattr(module, name)) for module, name, _ in wanted]
    for module, name, value in wanted:
        setattr(module, name, value)
    return before


def _turn_back(knobs: list[Knob]) -> None:
    for module, name, value in knobs:
        setattr(module, name, value)
