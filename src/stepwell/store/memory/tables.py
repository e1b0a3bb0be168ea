"""Tables: the state of the memory store, and the writes that several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from stepwell.domain.access import AuditEntry, Credential
from stepwell.domain.alerts import Alert
from stepwell.domain.commit import (
    DecidedApproval,
    Definition,
    Delivery,
    DrainRequest,
    Finish,
    Identity,
    InboxRow,
    LogRow,
    Message,
    NewEvent,
    NewWait,
    PublishedEvent,
    RunRow,
    WorkerInfo,
    WorkflowSwitch,
)
from stepwell.domain.ids import RunId, WorkerId
from stepwell.domain.limits import Limit, LimitScope
from stepwell.domain.notifications import PendingNotification
from stepwell.domain.rates import StoredRate, WindowKey
from stepwell.domain.records import Collection, StoredRecord
from stepwell.domain.scope_holds import ScopeHold
from stepwell.domain.secret import StoredSecret
from stepwell.domain.step_log import LogLineRow
from stepwell.domain.triggers.trigger import Trigger
from stepwell.store.base import INBOX_MAX


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
    held: bytes | None = None

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
    words: tuple[str, ...] = ()  # words of its error


class Tables:
    """The state, and writes to one row. The verbs are in the classes that extend it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._runs: dict[RunId, Run] = {}
        self._known: dict[Identity, RunId] = {}
        self._tickets: dict[tuple[RunId, str], Ticket] = {}
        self._inbox: dict[RunId, dict[str, InboxRow]] = {}
        self._waits: dict[tuple[RunId, str], NewWait] = {}
        self._decided_approvals: dict[tuple[RunId, int], DecidedApproval] = {}  # by run and seq of WaitEnded
        self._published: dict[str, PublishedEvent] = {}
        self._event_times: dict[tuple[str, str], float] = {}  # by workspace and name: of its last event
        self._workers: dict[WorkerId, tuple[WorkerInfo, float]] = {}
        self._drains: dict[WorkerId, DrainRequest] = {}
        self._contact = (0.0, 0.0)  # since, last
        self._limits: dict[LimitScope, Limit] = {}
        self._start_rates: dict[WindowKey, StoredRate] = {}  # by kind and period
        self._holds: dict[tuple[str, str, str], ScopeHold] = {}  # by kind, workspace and name
        self._windows: dict[WindowKey, str] = {}
        self._definitions: dict[tuple[str, str, str], Definition] = {}
        self._codec_check: bytes | None = None
        self._credentials: dict[str, Credential] = {}
        self._audit: dict[str, AuditEntry] = {}
        self._secrets: dict[tuple[str, str], StoredSecret] = {}  # by workspace and name
        self._step_logs: dict[RunId, dict[tuple[str, int, str], LogLineRow]] = {}
        self._numbers: dict[tuple[str, str], int] = {}  # by workspace and workflow: the last number given
        self._switches: dict[tuple[str, str], WorkflowSwitch] = {}
        self._triggers: dict[tuple[str, str, str], Trigger] = {}  # by workspace, type and name
        self._collections: dict[tuple[str, str], Collection] = {}  # by workspace and name
        self._records: dict[tuple[str, str, str], StoredRecord] = {}  # by workspace, collection and id

        self._notifications: dict[str, PendingNotification] = {}
        self._notifications_due: dict[str, float] = {}  # ids of notifications to send
        self._alerts: dict[tuple[str, str], Alert] = {}  # by workspace and name

    def _notify(self, rows: Iterable[PendingNotification]) -> None:
        for row in rows:
            if row.id not in self._notifications:
                self._notifications[row.id] = replace(row, created_at=self._clock())
                self._notifications_due[row.id] = self._clock()

    def _next_number(self, workspace: str, workflow: str) -> int:
        number = self._numbers.get((workspace, workflow), 0) + 1
        self._numbers[workspace, workflow] = number
        return number

    def _scope_holds(self) -> list[ScopeHold]:
        return [hold for hold in self._holds.values() if hold.held]

    def _is_disabled(self, workspace: str, workflow: str) -> bool:
        switch = self._switches.get((workspace, workflow))
        return switch is not None and not switch.enabled

    def _append(self, ticket: Ticket, events: Iterable[NewEvent]) -> float:
        """Append events. Only their time never goes back; timers and tickets use the wall clock."""
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
        existing = box.get(message.key)
        if existing is not None:
            same = not message.wait or existing.payload == message.payload
            return Delivery.DUPLICATE if same else Delivery.DECIDED
        if message.wait:
            wait = self._waits.get((message.run_id, message.wait))
            if wait is None or wait.kind != "decision":
                return Delivery.DECIDED
        if message.kind == "signal" and len(box) >= INBOX_MAX:
            return Delivery.FULL
        now = self._clock()
        ticket.wakes += 1
        ticket.due_at = min(ticket.due_at, max(now, ticket.not_before))
        box[message.key] = InboxRow(
            message.key, ticket.wakes, message.kind, message.name, message.payload, now, message.by
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
        run.words = tuple(finish.words)
        self._inbox.pop(run_id, None)
        for key in [key for key in self._tickets if key[0] == run_id]:
            del self._tickets[key]
        for key in [key for key in self._waits if key[0] == run_id]:
            del self._waits[key]
