"""Network: how the simulated processes reach the shared store: with delays, failures and repeats.

A call travels, is executed at one instant of the database's clock, and its answer travels back. Depending on
the seed it may be refused, executed but answered with an error, executed after the error was answered, or
executed twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from stepwell.domain.commit import Claims, Committed, Owned
from stepwell.errors import OutcomeUnknown, StoreUnavailable
from stepwell.store.base import Store
from stepwell.store.memory import MemoryStore
from stepwell.testing.clock import BEGIN
from tests.simulation.checker.evidence import Fault
from tests.simulation.simulator.loop import Process, SimLoop
from tests.simulation.simulator.plan import Plan

# Reads have no outcome that could be unknown. A retry has no key: sent twice it is two retries.
_READS = frozenset(
    {
        "find_run",
        "list_definitions",
        "list_others",
        "list_runs",
        "list_triggers",
        "list_workers",
        "now",
        "read_codec_check",
        "read_lanes",
        "read_limits",
        "read_start_rates",
        "read_queues",
        "published",
        "read_definition",
        "read_inbox",
        "read_log",
        "read_log_end",
        "read_run",
        "read_schema",
        "read_tickets",
        "read_tree",
        "read_trigger",
    }
)
_NOT_REPEATED = _READS | {
    "retry",
    "transact",
    "put_definitions",
    "drop_definitions",
    "drop_limit",
    "drop_start_rate",
    "remove",
}
_NOT_TWICE = _NOT_REPEATED | {"claim"}  # a later copy would be a new claim with old leases
# Losing one of these may cost a worker its lease, or a run its owner, and with it a repeated effect.
_COSTLY = frozenset({"heartbeat", "register", "transact"})


class Network:
    """The delays and faults between all processes and the store, and the trace of every call."""

    def __init__(self, loop: SimLoop, store: MemoryStore, plan: Plan, *, verbose: bool = False) -> None:
        self.loop = loop
        self.store = store
        self.plan = plan
        self.chances = plan.chances
        self.process = Process("network")
        self.faults: list[Fault] = []
        self.counts: Counter[str] = Counter()
        self.calls = 0
        self.claims_late = False
        self.outage = False
        self.kills: dict[str, tuple[int, bool]] = {}  # process -> (calls left, before it is executed)
        self.lines: list[str] | None = [] if verbose else None
        self._rng = random.Random(f"network/{plan.seed}")
        self._digest = hashlib.blake2b(digest_size=16)
        self._listeners: dict[int, tuple[Process, Callable[[str], None]]] = {}
        self._next = 0

    def trace(self, process: Process, text: str) -> None:
        line = f"{self.loop.time():.6f} {process.name} {text}"
        self._digest.update(line.encode())
        if self.lines is not None:
            self.lines.append(line)

    def now(self) -> float:
        """The database's clock."""
        return BEGIN + self.loop.time()

    @property
    def trace_hash(self) -> str:
        return self._digest.hexdigest()

    def delay(self, verb: str) -> float:
        seconds = self.plan.latency * (0.5 + self._rng.random())
        if self.plan.tail and self._rng.random() < self.plan.tail:
            seconds += 0.1 * self._rng.random()
        if self.plan.slow_commits and verb == "commit":
            seconds += 0.15
        return seconds

    def draw(self, chance: float) -> bool:
        return chance > 0.0 and self._rng.random() < chance

    def failed(self, process: Process, verb: str, kind: str) -> None:
        now = self.now()
        self.counts[kind] += 1
        self.faults.append(Fault(kind, now, now, process.name, costly=verb in _COSTLY))
        self.trace(process, f"{verb}: {kind}")

    def killed(self, process: Process, *, before: bool) -> bool:
        """Whether this call is the last thing that the process does."""
        left = self.kills.get(process.name)
        if left is None or left[1] != before:
            return False
        self.kills[process.name] = (left[0] - 1, before)
        if left[0] > 1:
            return False
        del self.kills[process.name]
        self.crash(process)
        return True

    def crash(self, process: Process) -> None:
        now = self.now()
        self.counts["crash"] += 1
        self.faults.append(Fault("crash", now, now, process.name, costly=True))
        self.trace(process, "crash")
        self.loop.crash(process)

    def execute_later(self, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.claims_late |= verb == "claim"
        seconds = self._rng.choice((0.01, 0.2, 1.0, 4.0)) * self._rng.random()
        if verb == "claim":  # it waits for no lock: a server that got it executes it soon or never
            seconds = min(seconds, 0.15)
        self.loop.spawn(self.process, self._late(seconds, verb, args, kwargs))

    async def _late(self, seconds: float, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        await asyncio.sleep(seconds)
        self.trace(self.process, f"{verb} executed again or late")
        await getattr(self.store, verb)(*args, **kwargs)

    def listen(self, process: Process, callback: Callable[[str], None]) -> Callable[[], None]:
        self._next += 1
        number = self._next
        self._listeners[number] = (process, callback)
        return lambda: self._listeners.pop(number, None) and None

    def hint(self, sender: Process, text: str) -> None:
        for process, callback in list(self._listeners.values()):
            if process is not sender and not process.dead and not self.draw(self.chances.hint_lost):
                self.loop.later_in(process, self.delay("hint"), partial(callback, text))


class FaultyStore:
    """The store as one process reaches it."""

    sync_transactions = False
    polls = False
    commits_at_once = 1
    starts_at_once = 1

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    async def _ask(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        network, process = self._network, self._process
        network.calls += 1
        chances = network.chances
        await asyncio.sleep(network.delay(verb))
        if network.killed(process, before=True):
            await asyncio.Future()
        if network.outage:
            raise StoreUnavailable("the simulated store is down")
        if network.draw(chances.unavailable):
            network.failed(process, verb, "unavailable")
            raise StoreUnavailable("simulated: nothing was sent")
        written = verb not in _READS
        if written and verb not in _NOT_REPEATED and network.draw(chances.late):
            network.failed(process, verb, "late")
            network.execute_later(verb, args, kwargs)
            raise OutcomeUnknown("simulated: executed after this")
        result = await getattr(network.store, verb)(*args, **kwargs)
        if written:
            network.trace(process, f"{verb} {_brief(result)}")
            if network.lines is not None:
                network.lines[-1] += _request(verb, args)
            if verb not in _NOT_TWICE and network.draw(chances.duplicate):
                network.counts["duplicate"] += 1
                network.execute_later(verb, args, kwargs)
        if network.killed(process, before=False):
            await asyncio.Future()
        rare = 8 if verb == "transact" else 1  # few steps are transactional: try those harder
        if written and network.draw(chances.ambiguous * rare):
            network.failed(process, verb, "ambiguous")
            raise OutcomeUnknown("simulated: executed before this")
        await asyncio.sleep(network.delay(verb))
        return result

    def __getattr__(self, verb: str) -> Any:
        if not hasattr(Store, verb):
            raise AttributeError(verb)
        return partial(self._ask, verb)

    def listen(self, callback: Callable[[str], None]) -> Callable[[], None]:
        return self._network.listen(self._process, callback)

    def hint(self, text: str = "") -> None:
        self._network.hint(self._process, text)

    def hears(self) -> bool:
        return True

    async def open(self, *, encoded: bool = False) -> None:
        pass

    async def close(self) -> None:
        pass


def faulty_store(network: Network, process: Process) -> Store:
    store: Any = FaultyStore(network, process)  # its verbs are those of the protocol, forwarded by name
    result: Store = store
    return result


def _brief(result: Any) -> str:
    """Enough of an answer to distinguish two histories."""
    if isinstance(result, Claims):
        return f"{[(c.run_id[-6:], c.path, c.lease[:6], c.head) for c in result.claims]}"
    if isinstance(result, list) and result and isinstance(result[0], Committed):
        return f"{[(str(r.outcome), r.wakes, round(r.at, 6)) for r in result]}"
    if isinstance(result, list) and result and isinstance(result[0], Owned):
        return f"{[(o.run_id[-6:], o.path, o.wakes) for o in result]}"
    return str(result)


def _request(verb: str, args: tuple[Any, ...]) -> str:
    """The request, for readers of a trace."""
    if verb == "commit":
        members = [
            (c.run_id[-6:], c.head, [e.kind for e in c.events], type(c.then).__name__) for c in args[0]
        ]
        return f" <- {members}"
    if verb == "deliver":
        return f" <- {[(m.run_id[-6:], m.key) for m in args[0]]}"
    return "" if verb in ("claim", "heartbeat", "reap", "register") else f" <- {str(args)[:120]}"
