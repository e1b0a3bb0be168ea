"""Tables: what the memory store holds, and the few writes that several verbs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from stepwell.domain.admission import FreeSlots, clear_blocked_owners, requested_lanes
from stepwell.domain.commit import (
    Definition,
    Delivery,
    Finish,
    Identity,
    InboxRow,
    LogRow,
    Message,
    NewEvent,
    NewRun,
    NewWait,
    PublishedEvent,
    RunRow,
    Started,
    WorkerInfo,
)
from stepwell.domain.ids import RunId, WorkerId
from stepwell.domain.limits import Limit, LimitScope
from stepwell.domain.rates import WindowKey
from stepwell.domain.status import Status
from stepwell.store.base import INBOX_MAX, SOLO_LOSSES


@dataclass(slots=True)
class Ticket:
    run_id: RunId
    path: str
    queue: str
    needs: str
    priority: int
    not_before: float
    due_at: float
    head: int
    at: float
    base: int = 1
    started: bool = False
    ending: bool = False
    owner: str | None = None
    lease: str | None = None
    wakes: int = 0
    losses: int = 0
    lost_lease: str = ""
    lane: str = ""

    def free(self, now: float) -> None:
        self.lost_lease = self.lost_lease or self.lease or ""
        self.owner = self.lease = None
        self.due_at = min(self.due_at, now)


@dataclass(slots=True)
class Run:
    row: RunRow
    digest: str
    queue: str
    priority: int
    parent_path: str
    hash: str = ""
    lane: str = ""
    log: list[LogRow] = field(default_factory=list)


class Tables:
    """The state, and writes on one row of it. The verbs are in the classes that extend it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._runs: dict[RunId, Run] = {}
        self._known: dict[Identity, RunId] = {}
        self._tickets: dict[tuple[RunId, str], Ticket] = {}
        self._inbox: dict[RunId, dict[str, InboxRow]] = {}
        self._waits: dict[tuple[RunId, str], NewWait] = {}
        self._published: dict[str, PublishedEvent] = {}
        self._event_times: dict[str, float] = {}  # by name: of its last event
        self._workers: dict[WorkerId, tuple[WorkerInfo, float]] = {}
        self._contact = (0.0, 0.0)  # since, last
        self._limits: dict[LimitScope, Limit] = {}
        self._windows: dict[WindowKey, str] = {}
        self._definitions: dict[tuple[str, str, str], Definition] = {}
        self._codec_check: bytes | None = None

    def _start(self, new: NewRun) -> Started:
        known = self._known.get(new.identity)
        if known is not None:
            return Started(known, created=False, conflict=self._runs[known].digest != new.digest)
        now = self._clock()
        row = RunRow(
            id=new.id,
            workspace=new.workspace,
            workflow=new.workflow,
            version=new.version,
            kind=new.kind,
            status=Status.PENDING,
            input=new.input,
            output=None,
            error=None,
            key=new.key,
            parent=new.parent,
            root=new.root,
            tags=new.tags,
            trigger=new.trigger,
            where_at="",
            created_at=now,
            started_at=None,
            ended_at=None,
            test=new.test,
        )
        run = Run(row, new.digest, new.queue, new.priority, new.parent_path, new.hash, new.lane)
        run.log.append(LogRow(1, "accepted", "", 0, now, new.accepted))
        self._runs[new.id] = run
        self._known[new.identity] = new.id
        due_at = now + new.delay
        ticket = self._tickets[new.id, ""] = Ticket(
            new.id, "", new.queue, new.needs, new.priority, due_at, due_at, head=1, at=now, lane=new.lane
        )
        limited = any(limit.most is not None for limit in self._limits.values())
        if not new.wanted or limited or WorkerId(new.owner) not in self._workers:
            return Started(new.id, created=True)
        ticket.owner, ticket.lease, ticket.started = new.owner, new.lease, True
        return Started(new.id, created=True, claim=new.taken(now))

    def _owned_within_limits(self, runs: Sequence[NewRun]) -> Sequence[NewRun]:
        """The same runs: their starter owns those of lanes for which there is a slot."""
        if not requested_lanes(runs):
            return runs
        now = self._clock()
        waiting = any(
            ticket.lane and ticket.lease is None and ticket.due_at <= now and ticket.losses < SOLO_LOSSES
            for ticket in self._tickets.values()
        )
        return clear_blocked_owners(runs, self._slots(), waiting=waiting)

    def _slots(self) -> FreeSlots:
        lanes = [ticket for ticket in self._tickets.values() if ticket.lane]
        leased = Counter(t.lane for t in lanes if t.lease is not None)
        resting = Counter(t.lane for t in lanes if t.lease is None and t.started)
        return FreeSlots(self._limits.values(), leased, resting)

    def _append(self, ticket: Ticket, events: Iterable[NewEvent]) -> float:
        """Only the events' time is kept from going back; timers and tickets use the wall clock."""
        at = max(self._clock(), ticket.at)
        for event in events:
            ticket.head += 1
            ticket.at = at
            self._runs[ticket.run_id].log.append(event.row(ticket.head, at))
        return at

    def _deliver(self, message: Message) -> Delivery:
        ticket = self._tickets.get((message.run_id, ""))
        if ticket is None:
            return Delivery.ENDED if message.run_id in self._runs else Delivery.UNKNOWN
        box = self._inbox.setdefault(message.run_id, {})
        known = box.get(message.key)
        if known is not None:
            same = not message.wait or known.payload == message.payload
            return Delivery.DUPLICATE if same else Delivery.DECIDED
        if message.wait and (message.run_id, message.wait) not in self._waits:
            return Delivery.DECIDED
        if message.kind == "signal" and len(box) >= INBOX_MAX:
            return Delivery.FULL
        now = self._clock()
        ticket.wakes += 1
        ticket.due_at = min(ticket.due_at, max(now, ticket.not_before))
        box[message.key] = InboxRow(
            message.key, ticket.wakes, message.kind, message.name, message.payload, now
        )
        return Delivery.DELIVERED

    def _finish(self, run_id: RunId, finish: Finish, at: float) -> None:
        run = self._runs[run_id]
        run.row = replace(
            run.row,
            status=finish.status,
            output=finish.output,
            error=finish.error,
            where_at=finish.where_at,
            started_at=run.row.started_at or finish.started_at or None,
            ended_at=at,
        )
        self._inbox.pop(run_id, None)
        for key in [key for key in self._tickets if key[0] == run_id]:
            del self._tickets[key]
        for key in [key for key in self._waits if key[0] == run_id]:
            del self._waits[key]
