"""Mutants: planted bugs. A checker that does not catch them proves nothing.

Each undoes one rule of the protocol, in the store or in the engine, and must be caught within a
bounded number of seeds.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from stepwell.domain.commit import (
    Beat,
    ClaimRequest,
    Claims,
    Commit,
    Committed,
    Finish,
    InboxRow,
    NewRun,
    Outcome,
    Park,
    PublishedEvent,
    Reaped,
    Started,
    WorkerInfo,
)
from stepwell.domain.fence import check_fence
from stepwell.domain.ids import RunId, WorkerId
from stepwell.engine.execution.attempt import StepAttempt
from stepwell.engine.run.activation import Activation
from stepwell.engine.run.answers import RecordedResult
from stepwell.engine.run.broadcasts import Broadcasts
from stepwell.engine.run.endings import RunEnding
from stepwell.engine.run.log_writer import Draft
from stepwell.engine.run.steps import Steps
from stepwell.engine.run.timers import Timers
from stepwell.engine.run.waits import Waits
from stepwell.engine.worker.orphans import OrphanedTickets
from stepwell.store.base import PUBLISHED_MAX
from stepwell.store.memory import MemoryStore, commits
from tests.simulation.simulator.contests import mixed
from tests.simulation.simulator.loop import SimLoop
from tests.simulation.simulator.shapes import LISTENERS, SHAPES, Shape
from tests.simulation.simulator.world import Report, simulate

SEEDS_MAX = 400


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    what: str
    store: type[MemoryStore] = MemoryStore
    patches: tuple[tuple[Any, str, Any], ...] = ()
    shapes: Sequence[Shape] = SHAPES

    @contextmanager
    def planted(self) -> Iterator[None]:
        before = [(target, name, getattr(target, name)) for target, name, _ in self.patches]
        try:
            for target, name, bug in self.patches:
                setattr(target, name, bug)
            yield
        finally:
            for target, name, right in before:
                setattr(target, name, right)


def hunt(mutant: Mutant, seeds: Sequence[int] = range(SEEDS_MAX)) -> Report | None:
    """The first seed that catches it and is clean without it; None: it survived."""
    for seed in seeds:
        with mutant.planted():
            report = simulate(seed, mutant.store, mutant.shapes)
        if report.violations and not simulate(seed, shapes=mutant.shapes).violations:
            return report
    return None


# The fence and the parks


def _no_fence(commit: Commit, *, lease: str | None, head: int, wakes: int) -> Outcome:
    return check_fence(commit, lease=commit.lease, head=commit.head, wakes=wakes)


def _park_blindly(commit: Commit, *, lease: str | None, head: int, wakes: int) -> Outcome:
    blind = isinstance(commit.then, Park)
    return check_fence(
        commit, lease=lease, head=head, wakes=commit.then.seen if blind and commit.then else wakes
    )


def _finish_blindly(commit: Commit, *, lease: str | None, head: int, wakes: int) -> Outcome:
    blind = isinstance(commit.then, Finish)
    return check_fence(
        commit, lease=lease, head=head, wakes=commit.then.seen if blind and commit.then else wakes
    )


def _never_written(commit: Commit, log: object) -> bool:
    return False


class TwoTransactions(MemoryStore):
    """Tickets, children and messages follow in a separate transaction."""

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Committed]:
        bare = [replace(commit, starts=(), deliveries=(), tickets_opened=()) for commit in batch]
        results = await super().commit(bare)
        await asyncio.sleep(0.03)
        for commit, result in zip(batch, results, strict=True):
            if result.outcome is Outcome.OK:
                self._reach_out(replace(commit, tickets_closed=()), result.at)
        return results


class OldSnapshot(MemoryStore):
    """A claim returns the new count of messages with the old inbox."""

    async def claim(self, request: ClaimRequest) -> Claims:
        before = {run_id: list(box.values()) for run_id, box in self._inbox.items()}
        await asyncio.sleep(0.02)
        answer = await super().claim(request)
        stale = [claim._replace(inbox=before.get(claim.run_id, [])) for claim in answer.claims]
        return answer._replace(claims=stale)


# Keys


class _Forgetful(dict[str, None]):
    def __contains__(self, key: object) -> bool:
        return False


_init_waits: Callable[..., None] = Waits.__init__


def _forget_keys(self: Waits, *args: Any) -> None:
    _init_waits(self, *args)
    self.keys = _Forgetful(self.keys)


class StartsTwice(MemoryStore):
    def _start(self, new: NewRun) -> Started:
        if self._known.pop(new.identity, None) is not None:
            new = replace(new, id=RunId(f"{new.id[:-6]}{len(self._runs):06x}"))
        return super()._start(new)


class OwnsTwice(MemoryStore):
    def _start(self, new: NewRun) -> Started:
        started = super()._start(new)
        if started.created or not new.owner:
            return started
        return started._replace(claim=new.taken(self._clock())._replace(run_id=started.run_id))


# Broadcast events


def _since_last_moved(self: Broadcasts, name: str, key: str) -> float:
    return self._run.writer.last_at


def _no_cursors(self: Waits) -> list[Any]:
    return []


class OrderOfIds(MemoryStore):
    async def published(self, *asked: Any, limit: int = PUBLISHED_MAX, **since: Any) -> Any:
        answer = await super().published(*asked, **since)
        return sorted(answer, key=lambda event: event.id)[:limit]


class SameMoment(MemoryStore):
    """Events emitted at almost the same moment get the same time."""

    async def emit(self, event: PublishedEvent) -> bool:
        is_new = await super().emit(event)
        if is_new:
            at = self._clock() // 0.25 * 0.25
            self._published[event.id] = self._published[event.id]._replace(at=at)
        return is_new


_take_message: Callable[..., None] = Waits._take_one


def _take_what_is_told(self: Waits, row: InboxRow) -> None:
    call = self._open.get(row.name)
    if row.kind != "event":
        _take_message(self, row)
    elif call is not None:
        event = PublishedEvent(row.key.removeprefix("evt/"), call.name, call.key, row.payload, row.at)
        self.take_event(call, event)


# Time and leases


class WorkerClock(MemoryStore):
    """Leases are counted by the clock of the worker that asks."""

    @contextmanager
    def _their_time(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        skew = zlib.crc32(loop.current.name.encode()) % 1000 / 100 - 5
        right = self._clock
        self._clock = lambda: right() + skew
        try:
            yield
        finally:
            self._clock = right

    async def register(self, worker: WorkerInfo) -> None:
        with self._their_time():
            await super().register(worker)

    async def heartbeat(self, worker: WorkerId) -> Beat | None:
        with self._their_time():
            return await super().heartbeat(worker)

    async def reap(self) -> Reaped:
        with self._their_time():
            return await super().reap()


class EagerReaper(MemoryStore):
    """Presumes workers dead that have merely not renewed for a moment."""

    def _is_dead(self, worker: WorkerId, now: float) -> bool:
        info, until = self._workers[worker]
        return until < now + 0.75 * info.lease_seconds


def _their_own_time(self: Timers) -> float:
    return self._services.clock.time()


# The engine's order

_ask: Callable[..., asyncio.Future[Any]] = Activation.ask


def _ask_at_once(self: Activation, call: Any) -> asyncio.Future[Any]:
    future = _ask(self, call)
    call.after = 0
    return future


def _answer_last(self: Steps, call: Any, fact: Any) -> Commit:
    writer, answers = self._run.writer, self._run.calls.answers
    return writer.transaction(
        fact, call.path, call.attempt, lambda at: answers.append(RecordedResult(writer.head, call.path, fact))
    )


def _take_all(self: Activation) -> bool:
    if not self.waits.rows:
        return _take_one(self)
    while self.waits.rows:
        self.waits.take(self.waits.rows.popleft())
    return True


_take_one: Callable[..., bool] = Activation._take_next
_continue: Callable[..., None] = Activation._begin_generation


def _continue_deaf(self: Activation, fact: Any) -> None:
    self.waits.rows.clear()
    _continue(self, fact)


def _undraft_everything(self: RunEnding, draft: Draft) -> None:
    if self.event is not None:
        draft.events.remove(self.event)
        self.event = None
    draft.rest.deliveries.clear()
    self.messages = []


def _every_child(self: Waits) -> list[RunId]:
    return [RunId(child.run) for child in self._children.values()]


def _none(self: OrphanedTickets, owned: object) -> list[tuple[RunId, str]]:
    return []


def _nothing(self: Any, *args: Any) -> None:
    return None


MUTANTS: tuple[Mutant, ...] = (
    Mutant("no_fence", "a commit needs no lease and no head", patches=((commits, "check_fence", _no_fence),)),
    Mutant("two_transactions", "tickets, children and messages come after the commit", TwoTransactions),
    Mutant("blind_park", "park although a message came", patches=((commits, "check_fence", _park_blindly),)),
    Mutant(
        "blind_finish",
        "end although a message came",
        patches=((commits, "check_fence", _finish_blindly),),
    ),
    Mutant("old_snapshot", "claim reads the inbox in the statement that locks", OldSnapshot),
    Mutant("forgets_keys", "a consumed key is new again", patches=((Waits, "__init__", _forget_keys),)),
    Mutant("worker_clock", "leases by the workers' clocks", WorkerClock),
    Mutant("starts_twice", "a repeated start is a second run", StartsTwice),
    Mutant("owns_twice", "a start that meets its key owns that run too", OwnsTwice),
    Mutant(
        "sent_again",
        "an unanswered commit counts as lost",
        patches=((commits, "was_already_written", _never_written),),
    ),
    Mutant(
        "early_effects", "effects before their cause is written", patches=((Activation, "ask", _ask_at_once),)
    ),
    Mutant("eager_reaper", "tickets of living workers are freed", EagerReaper),
    Mutant("timer_clock", "timers by the workers' clocks", patches=((Timers, "now", _their_own_time),)),
    Mutant("lost_events", "a wait parks without a look", patches=((Broadcasts, "look", _nothing),)),
    Mutant(
        "looks_back_in_time",
        "events from before the run's last step or wait do not count",
        patches=((Broadcasts, "since", _since_last_moved),),
        shapes=LISTENERS,
    ),
    Mutant("order_of_ids", "events come in the order of their ids", OrderOfIds, shapes=LISTENERS),
    Mutant("same_moment", "events of one moment have one time", SameMoment, shapes=LISTENERS),
    Mutant(
        "cursor_left_behind",
        "the next generation, or place, begins at the run's start again",
        patches=((Waits, "cursors", _no_cursors),),
        shapes=LISTENERS,
    ),
    Mutant(
        "as_they_are_told",
        "an event is taken when its message comes, whatever came before it",
        patches=((Broadcasts, "notify", _nothing), (Waits, "_take_one", _take_what_is_told)),
        shapes=LISTENERS,
    ),
    Mutant(
        "answers_dropped",
        "what came with the claim finds nothing open",
        patches=((Steps, "recall", _nothing), (Waits, "recall", _nothing)),
    ),
    Mutant(
        "overtaken",
        "answers overtake a transactional step",
        patches=((Steps, "_transaction", _answer_last),),
        shapes=[shape for shape in SHAPES if shape.workflow is mixed],  # the others cannot show it
    ),
    Mutant("all_at_once", "messages are taken together", patches=((Activation, "_take_next", _take_all),)),
    Mutant(
        "deaf_between",
        "messages that came with the last commit of a generation are lost",
        patches=((Activation, "_begin_generation", _continue_deaf),),
    ),
    Mutant(
        "children_forgotten",
        "a refused end forgets whom it cancels",
        patches=((RunEnding, "undraft", _undraft_everything),),
    ),
    Mutant(
        "detached_cancelled",
        "a detached child ends with its parent",
        patches=((Waits, "open_children", _every_child),),
    ),
    Mutant("endless_steps", "no step times out", patches=((StepAttempt, "_time_out", _nothing),)),
    Mutant("endless_runs", "no run times out", patches=((Activation, "timed_out", _nothing),)),
    Mutant("orphans", "tickets of lost answers stay", patches=((OrphanedTickets, "overdue", _none),)),
)
