"""LogWriter: how one run's log grows. A draft collects, one commit is in flight, the head moves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

import msgspec

from stepwell.domain import events as ev
from stepwell.domain.commit import (
    Claim,
    Commit,
    Committed,
    DecidedApproval,
    Finish,
    Message,
    NewEvent,
    NewRun,
    NewTicket,
    NewWait,
    Park,
)
from stepwell.domain.events import SETTLING, Fact, written
from stepwell.domain.figures import mark_of, used_by
from stepwell.domain.ids import LeaseId, RunId
from stepwell.domain.notifications import PendingNotification
from stepwell.domain.status import Status
from stepwell.domain.usage import Mark, Usage
from stepwell.engine.run.services import Submits

_ROW_BYTES = 200  # of an event, beside its payload


class Draft(msgspec.Struct, eq=False):
    """Most drafts hold events only, so the rest is created when it is first used."""

    events: list[NewEvent] = []
    size: int = 0  # about how many bytes
    needed: bool = False  # there is more than the claim itself to write
    settled: bool = False
    base: int | None = None
    dues: dict[str, float] = {}  # path -> seconds after this commit
    then_do: Sequence[Callable[[float], None]] = ()  # after it was written, with its time
    _rest: Rest | None = None

    @property
    def rest(self) -> Rest:
        if self._rest is None:
            self._rest = Rest()
        return self._rest

    def add(self, fact: Fact, path: str = "", attempt: int = 0) -> NewEvent:
        kind, payload = ev.KIND[type(fact)], ev.encode(fact)
        event = NewEvent(kind, path, attempt, payload)  # as `ev.written`
        self.events.append(event)
        self.size += len(payload) + _ROW_BYTES
        self.needed = True
        if kind in SETTLING:
            self.settled = True
        return event

    def absorb(self, later: Draft) -> None:
        """Append what was drafted meanwhile to a draft that was not written."""
        self.events.extend(later.events)
        self.size += later.size
        self.then_do = (*self.then_do, *later.then_do)
        self.dues.update(later.dues)
        self.needed |= later.needed
        self.settled |= later.settled
        self.base = later.base if later.base is not None else self.base
        if later._rest is not None:
            for name in Rest.__struct_fields__:
                getattr(self.rest, name).extend(getattr(later._rest, name))

    def commit(self, run_id: RunId, lease: LeaseId, head: int, then: Park | Finish | None) -> Commit:
        commit = Commit(
            run_id=run_id,
            lease=lease,
            head=head,
            events=self.events,
            settled=self.settled,
            then=then,
            base=self.base,
            events_only=then is None and self._rest is None and bool(self.events),
        )
        if self._rest is not None:
            for name in Rest.__struct_fields__:
                setattr(commit, name, getattr(self._rest, name))
        return commit


class Rest(msgspec.Struct, eq=False):
    """What a commit writes beside its events."""

    consumed: list[str] = []
    waits_opened: list[NewWait] = []
    waits_closed: list[str] = []
    starts: list[NewRun] = []
    deliveries: list[Message] = []
    tickets_opened: list[NewTicket] = []
    tickets_closed: list[str] = []
    used: list[Usage] = []
    marks: list[Mark] = []
    notifications: list[PendingNotification] = []
    decided: list[DecidedApproval] = []


_log = logging.getLogger("stepwell.engine")

_SUSPENDED, _HELD = written(ev.Suspended()), written(ev.Suspended(held=True))
_OPENING = (ev.KIND[ev.LeaseLost], ev.KIND[ev.Claimed])
Written = Callable[[Draft, Committed, Park | Finish | None], None]


class LogWriter:
    def __init__(
        self, claim: Claim, *, committer: Submits, written: Written, broken: Callable[[], None]
    ) -> None:
        self._run_id = claim.run_id
        self.lease = claim.lease
        self.losses = claim.losses  # owners that died since the run last moved
        self._committer = committer
        self._written = written
        self._broken = broken  # called in the handler of an error of `written`
        self.in_flight: Draft | None = None  # what comes now goes with the next
        self.turn_held = ""  # path of the transactional step whose fact comes before what is drafted now
        self._turn_free: asyncio.Event | None = None  # created by the first transactional step that waits
        self.head = self._first_head = claim.head  # the log ends here
        self.base = claim.log[1].seq if len(claim.log) > 1 else 1  # replay begins here
        self.last_at = 0.0  # when it last grew
        self.barrier = 0  # seq of the last fact that was drafted
        self.draft = Draft()

    @property
    def future_seq(self) -> int:
        """The seq that the last drafted event will have."""
        return self.head + (len(self.in_flight.events) if self.in_flight else 0) + len(self.draft.events)

    def open_with(self, fact: ev.Fact) -> None:
        """A fact that goes first in the next commit, but is not a reason for one."""
        self.draft.events.append(ev.written(fact))

    def add(self, fact: ev.Fact, path: str, attempt: int) -> int:
        """Draft a fact; returns the seq that it will have."""
        draft, flying = self.draft, self.in_flight
        draft.add(fact, path, attempt)
        self.barrier = seq = self.head + len(draft.events) + (len(flying.events) if flying is not None else 0)
        return seq

    def checkpoint(self, fact: ev.Fact, path: str = "", attempt: int = 0) -> None:
        """Draft a fact from which on the next claim reads the log."""
        self.draft.base = self.add(fact, path, attempt)

    def end_with(self, fact: ev.Fact) -> NewEvent:
        """Draft the last fact of a run; a refused commit takes it back."""
        return self.draft.add(fact)

    # What the next commit writes beside its events

    def after_commit(self, action: Callable[[float], None]) -> None:
        """Call `action` with the commit's time, once it is written."""
        self.draft.then_do = (*self.draft.then_do, action)

    def due(self, path: str, seconds: float) -> None:
        """The path is due that many seconds after the commit."""
        self.draft.dues[path] = seconds

    def is_due(self, path: str) -> bool:
        return path in self.draft.dues

    def forget_due(self, path: str) -> None:
        self.draft.dues.pop(path, None)

    def consume(self, key: str, *, needed: bool = False) -> None:
        """Take a message out of the inbox. Needed: that alone is a reason for a commit."""
        self.draft.rest.consumed.append(key)
        if needed:
            self.draft.needed = True

    def open_wait(self, wait: NewWait) -> None:
        self.draft.rest.waits_opened.append(wait)

    def close_waits(self, paths: Iterable[str]) -> None:
        self.draft.rest.waits_closed.extend(paths)

    def keep_decided(self, approval: DecidedApproval) -> None:
        self.draft.rest.decided.append(approval)

    def open_ticket(self, ticket: NewTicket) -> None:
        self.draft.rest.tickets_opened.append(ticket)

    def close_ticket(self, path: str, *, needed: bool = False) -> None:
        self.draft.rest.tickets_closed.append(path)
        if needed:
            self.draft.needed = True

    def count(self, fact: ev.Fact, path: str) -> None:
        """Let the run's row show what a step used, or how far the run is."""
        if (usage := used_by(fact)) is not None:
            self.draft.rest.used.append(usage)
        elif (mark := mark_of(fact, path)) is not None:
            self.draft.rest.marks.append(mark)

    def start(self, new: NewRun, notify: Callable[[], None]) -> None:
        """Start a child; `notify` is called once for all children of the commit."""
        starts = self.draft.rest.starts
        if not starts:
            self.after_commit(lambda at: notify())
        starts.append(new)

    def deliver(self, messages: Iterable[Message]) -> None:
        self.draft.rest.deliveries.extend(messages)

    def notify(self, row: PendingNotification, notify: Callable[[], None]) -> None:
        """Write a notification with the commit; `notify` as in `start`."""
        rows = self.draft.rest.notifications
        if not rows:
            self.after_commit(lambda at: notify())
        rows.append(row)

    def request(self, message: Message, notify: Callable[[], None]) -> None:
        """Deliver a message that is a reason for a commit; `notify` as in `start`."""
        deliveries = self.draft.rest.deliveries
        if not deliveries:
            self.after_commit(lambda at: notify())
        deliveries.append(message)
        self.draft.needed = True

    # Committing

    def send(self, then: Park | Finish | None, *, held: bool = False) -> None:
        draft, self.draft = self.draft, Draft()
        self.in_flight = draft
        commit = draft.commit(self._run_id, self.lease, self.head, then)
        if (
            then is not None
            and type(then) is Park
            and (held or then.status is Status.SUSPENDED)
            and (draft.events or self.head != self._first_head)
        ):
            # Not in the draft: a refused park suspends nothing, and shifts no seq that was promised.
            commit.events = [*draft.events, _SUSPENDED if then.status is Status.SUSPENDED else _HELD]
        self._committer.submit(commit, draft.size, self._answered)

    def _answered(self, result: Committed, then: Park | Finish | None) -> None:
        draft, self.in_flight = self.in_flight, None
        if self._turn_free is not None:
            self._turn_free.set()
        if draft is not None:
            try:
                self._written(draft, result, then)
            except Exception:
                self._broken()

    def take_back(self, draft: Draft) -> None:
        """A refused park or finish wrote nothing: its draft comes first in the next commit."""
        draft.absorb(self.draft)
        self.draft = draft

    def close(self) -> None:
        """The activation has ended: it no longer hears of commits."""
        self._written, self._broken = _unheard, _too_late

    def drop(self, draft: Draft) -> None:
        """The database cannot hold this draft: only who claimed the run remains to be written."""
        self.draft.events[:0] = [e for e in draft.events if e.kind in _OPENING]

    # The turn of a transactional step: its commit goes with the user's statements

    async def turn_free(self) -> None:
        """Until nothing is in flight and nothing drafted waits to be written first."""
        if self._turn_free is None:
            self._turn_free = asyncio.Event()
        while self.in_flight is not None or self.draft.needed:
            if self.in_flight is None:
                self.send(None)
            self._turn_free.clear()
            await self._turn_free.wait()

    def hold_turn(self, holder: str) -> None:
        self.in_flight, self.draft = self.draft, Draft()
        self.turn_held = holder

    def transaction(self, fact: ev.Fact, path: str, attempt: int, then_do: Callable[[float], None]) -> Commit:
        """The commit of a transactional step, while the turn is held."""
        assert self.in_flight is not None
        self.in_flight.add(fact, path, attempt)
        self.in_flight.then_do = (*self.in_flight.then_do, then_do)
        return self.in_flight.commit(self._run_id, self.lease, self.head, None)

    def transacted(self, result: Committed) -> None:
        self.turn_held = ""
        self._answered(result, None)

    def give_turn_back(self, holder: str) -> None:
        """The transaction was rolled back: nothing of it was written. One that had no turn yet has none."""
        draft = self.in_flight
        if self.turn_held == holder and draft is not None:
            self.turn_held = ""
            self.in_flight = None
            self.drop(draft)
            if self._turn_free is not None:
                self._turn_free.set()


def opening(claim: Claim, worker: str, since: float = 0.0, *, suspended: bool = False) -> list[ev.Fact]:
    """What the log says of a new owner before anything else."""
    lost = [ev.LeaseLost(lease=claim.lost_lease)] if claim.lost_lease else []
    resumed = [ev.Resumed()] if suspended else []
    return [*lost, ev.Claimed(lease=claim.lease, worker=worker, since=since), *resumed]


def _unheard(draft: Draft, result: Committed, then: Park | Finish | None) -> None:
    pass


def _too_late() -> None:
    _log.exception("the engine failed after it had left a run")
