"""Commit: what an owner writes in one transaction, and the other values that cross into a store.

Durable state changes in few ways, each one transaction: runs are started, an owner commits, somebody
delivers a message, a lost owner is reaped. These are the values for that. Times are seconds since the epoch
by the store's clock; intervals are seconds. They are msgspec structs because a step creates several of them:
creating a frozen dataclass takes five times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from stepwell.domain.ids import LeaseId, RunId, WorkerId
from stepwell.domain.manual_trigger import ManualTrigger, manual_trigger_of
from stepwell.domain.notifications import PendingNotification
from stepwell.domain.status import Status
from stepwell.domain.usage import Mark, Usage

NEVER = float("inf")  # due_at of a ticket that only a message can wake
DEFAULT_WORKSPACE = "default"
ENDING_PRIORITY = 1_000_000  # a run that must clean up goes before everything else


class NewEvent(msgspec.Struct, frozen=True, gc=False):
    """A fact to be appended to the log; its seq follows from its place in the commit."""

    kind: str
    path: str
    attempt: int
    payload: bytes

    def row(self, seq: int, at: float) -> LogRow:
        """The row that the log will have."""
        return LogRow(seq, self.kind, self.path, self.attempt, at, self.payload)


class LogRow(NamedTuple):
    seq: int
    kind: str
    path: str
    attempt: int
    at: float
    payload: bytes


class InboxRow(NamedTuple):
    """A message that the owner has not taken yet; `n` orders the messages of a run."""

    key: str
    n: int
    kind: str
    name: str
    payload: bytes
    at: float
    by: str = ""  # who sent it


Identity = tuple[str, str]


def identity(workspace: str, key: str, run_id: str) -> Identity:
    """What identifies a repeated start: its key, or the id if it has no key."""
    return (workspace, key) if key else (run_id, "")


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to be started. `accepted` is the payload of its first event."""

    id: RunId
    workflow: str
    version: str
    kind: str
    queue: str
    needs: str
    accepted: bytes
    input: bytes
    key: str  # unique in the workspace; '': without a key, the id identifies it
    digest: str  # of the input: the same key with another digest is a conflict
    workspace: str = DEFAULT_WORKSPACE
    lane: str = ""
    priority: int = 0
    delay: float = 0.0
    hash: str = ""
    parent: str = ""
    parent_path: str = ""
    root: str = ""
    tags: bytes = b"{}"
    trigger: str = ""
    test: bool = False
    owner: str = ""  # the worker that wants to own it from the start, under this lease; see `Started.claim`
    lease: str = ""
    started_by: str = ""

    @property
    def identity(self) -> Identity:
        return identity(self.workspace, self.key, self.id)

    @property
    def at_once(self) -> bool:
        """Whether a worker may own it from the start: not if it is delayed."""
        return not self.delay

    @property
    def wanted(self) -> bool:
        """Whether a worker wants to own it from the start, and may."""
        return bool(self.owner) and self.at_once

    def taken(self, at: float) -> Claim:
        """The owner's claim on a run started at that time: it is complete, for nobody else saw the run."""
        log = [LogRow(1, "accepted", "", 0, at, self.accepted)]
        return Claim(self.id, "", self.needs, LeaseId(self.lease), 1, 0, 0, "", log, [], bool(self.lane))


class Started(NamedTuple):
    """`run_id` is the run of that key; `conflict`: it has another input.

    `disabled`: its workflow is disabled, and nothing was written.
    `claim`: the worker that the start named owns the run. Only a registered worker gets it, only while no
    limits are set, and only if the limits that the run carries have a free slot; otherwise the run waits
    like any other.
    """

    run_id: RunId
    created: bool
    conflict: bool = False
    claim: Claim | None = None
    disabled: bool = False


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Something for a run's inbox. Repeating a key is a no-op.

    With `wait` it is a decision: that wait must be open and not yet decided.
    """

    run_id: RunId
    key: str
    kind: str  # signal | event | decide | cancel | child | step
    name: str = ""
    payload: bytes = b"null"
    wait: str = ""
    by: str = ""  # who sent it


class Delivery(StrEnum):
    DELIVERED = "delivered"
    DUPLICATE = "duplicate"  # that key is in the inbox already
    ENDED = "ended"
    UNKNOWN = "unknown"  # no such run
    DECIDED = "decided"  # the wait is not open, or was answered
    FULL = "full"  # too many messages are waiting


class NewTicket(msgspec.Struct, frozen=True, kw_only=True):
    """A remote step for the workers of a queue; `seq` is its StepScheduled event."""

    path: str
    queue: str
    needs: str
    seq: int
    priority: int = 0


class NewWait(msgspec.Struct, frozen=True, kw_only=True):
    """A wait that others must be able to find: for a signal, a broadcast event or a decision.

    A `cursor` is not a wait: it keeps the events after it for a run that may ask for them later. The store
    sets `seq`, `opened_at` and `due_at`, which are known only at the write.
    """

    path: str
    kind: str  # signal | event | decision | cursor
    name: str
    key: str = ""  # '' accepts an event of any key
    since: float = 0.0  # events published earlier do not count
    workspace: str = DEFAULT_WORKSPACE  # of its run: events of another one do not count
    what: str = ""  # signal | event | approval | trigger; empty for a cursor
    timeout: float | None = None
    seq: int = 0  # seq of its WaitOpened; 0: unknown
    opened_at: float = 0.0
    due_at: float | None = None

    def opened(self, commit: Commit, at: float) -> NewWait:
        """Return the wait as it is kept after this commit, which was written at that time."""
        if not self.what:
            return self
        places = enumerate(commit.events, commit.head + 1)
        seqs = [seq for seq, event in places if event.path == self.path and event.kind == "wait_opened"]
        due_at = None if self.timeout is None else at + self.timeout
        return replace(self, seq=seqs[-1] if seqs else self.seq, opened_at=at, due_at=due_at, timeout=None)


class DecidedApproval(msgspec.Struct, frozen=True, kw_only=True):
    """An approval that people decided or that timed out, kept for lists until its run is removed.

    It names the events of its run that say who decided what. The store sets `at`.
    """

    path: str
    name: str
    opened: int  # seq of its WaitOpened
    received: int  # seq of the Received that decided it; 0: it timed out
    ended: int  # seq of its WaitEnded
    workspace: str = DEFAULT_WORKSPACE
    at: float = 0.0


class Park(msgspec.Struct, frozen=True, kw_only=True):
    """Give the lease back until `due`. Refused (`woken`) when a message came since `seen`.

    The ticket is due at the earlier of `due_at` and the commit's time + `due_in`.
    """

    seen: int
    status: Status
    due_at: float = NEVER
    due_in: float = NEVER
    where_at: str = ""
    started_at: float = 0.0


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """The run ends. Refused (`woken`) when a message came since `seen`."""

    seen: int
    status: Status
    output: bytes | None = None
    error: bytes | None = None
    where_at: str = ""
    started_at: float = 0.0
    words: Sequence[str] = ()  # words of the error, by which the run is found


class Commit(msgspec.Struct, kw_only=True, gc=False):
    """What an owner writes in one transaction. Before it nothing happened; after it everything did."""

    run_id: RunId
    lease: LeaseId
    head: int  # the log must end here; otherwise the lease is lost
    events: Sequence[NewEvent] = ()
    settled: bool = False  # these events show that the run makes progress: losses = 0
    consumed: Sequence[str] = ()  # keys of inbox messages that these events absorb
    then: Park | Finish | None = None  # None: keep the lease and continue
    base: int | None = None  # replay begins at this seq from now on
    waits_opened: Sequence[NewWait] = ()
    waits_closed: Sequence[str] = ()
    starts: Sequence[NewRun] = ()
    deliveries: Sequence[Message] = ()
    tickets_opened: Sequence[NewTicket] = ()
    tickets_closed: Sequence[str] = ()
    used: Sequence[Usage] = ()  # what its steps used, counted on the run's row
    marks: Sequence[Mark] = ()  # the run's progress, shown on its row
    notifications: Sequence[PendingNotification] = ()  # notifications about what it writes
    decided: Sequence[DecidedApproval] = ()
    events_only: bool = False  # sure to have no `then` or anything after it, as most commits

    @property
    def cross_run(self) -> bool:
        """Whether it touches more than its own run's rows and so must lock all their tickets first."""
        return bool(cross_run([self]))


def cross_run(batch: Sequence[Commit]) -> list[Commit]:
    """Return the commits that touch more than their own runs' rows, or tables that few commits touch.

    One call for a batch, because most commits never do.
    """
    return [
        c
        for c in batch
        if not c.events_only
        and (c.starts or c.deliveries or c.tickets_opened or c.tickets_closed or c.notifications or c.decided)
    ]


def counting(batch: Sequence[Commit]) -> list[Commit]:
    """Return the commits that change what the rows of their runs show besides the status."""
    return [c for c in batch if not c.events_only and (c.used or c.marks)]


class Outcome(StrEnum):
    OK = "ok"
    WOKEN = "woken"  # not parked or finished: a message came; nothing was written
    LOST = "lost"  # no longer the owner; nothing was written
    REFUSED = "refused"  # the database cannot hold this value; nothing was written


class Committed(msgspec.Struct, frozen=True, gc=False):
    """How a commit went: `wakes` counts the run's deliveries so far, `at` is the events' time."""

    outcome: Outcome
    wakes: int
    at: float


class Claim(NamedTuple):
    """A ticket that this worker owns now, with what it needs to continue.

    path '' is a run: `log` is its first event and everything from its base on, `inbox` its messages.
    Any other path is a remote step: `head` is the seq of its StepScheduled, the only event in `log`.
    """

    run_id: RunId
    path: str
    needs: str
    lease: LeaseId
    head: int
    wakes: int
    losses: int
    lost_lease: str
    log: Sequence[LogRow]
    inbox: Sequence[InboxRow]
    limited: bool = False  # it holds slots of limits: when it is released, others may begin


class Claims(NamedTuple):
    claims: Sequence[Claim]
    now: float
    next_in: float | None  # seconds until the next ticket that this worker could take; None: none is known
    blocked: bool = False  # some are due, but a limit holds them back


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    worker: WorkerId
    queues: Sequence[str]
    needs: Sequence[str]  # what this worker has: workflow@version, step:name, emit
    limit: int
    leases: Sequence[LeaseId]  # one fresh random id for each ticket it may get
    fresh: int = 0  # how many places go first to tickets that never began; see domain/shares
    solo: bool = False  # take only tickets that lost two owners, one at a time; otherwise skip those


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    id: WorkerId
    lease_seconds: float
    name: str = ""  # host:pid for people
    queues: Sequence[str] = ()
    needs: Sequence[str] = ()
    leaving: bool = False  # it was asked to stop: if it is killed meanwhile, its runs count no lost owner


class DrainRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who asked a worker to stop, when and why."""

    by: str = ""
    reason: str = ""
    at: float = 0.0  # set by the store


class Owned(NamedTuple):
    run_id: RunId
    path: str
    wakes: int
    held: bool = False  # its workflow, queue or workspace is held, so it stops at its next step


class Beat(NamedTuple):
    """The answer to a heartbeat."""

    owned: Sequence[Owned]
    draining: bool = False  # set if this worker was asked to stop


class Reaped(NamedTuple):
    workers: int
    tickets: int
    solo_due: bool  # a ticket that lost two owners waits for a worker to take it alone


class CancelOutcome(StrEnum):
    ENDED = "ended"  # it had no owner: it is cancelled now
    REQUESTED = "requested"  # its owner will clean up and end it
    ALREADY = "already"  # it was terminal, or cancel was asked before
    UNKNOWN = "unknown"


class RetryOutcome(StrEnum):
    RETRIED = "retried"
    NOT_FAILED = "not_failed"  # nor timed out
    COMPENSATED = "compensated"  # what it did was undone
    UNKNOWN = "unknown"


class HoldOutcome(StrEnum):
    CHANGED = "changed"  # it is now held or released
    ALREADY = "already"  # it already was
    ENDING = "ending"  # it was cancelled and is cleaning up
    ENDED = "ended"
    UNKNOWN = "unknown"


class PublishedEvent(NamedTuple):
    """A broadcast event. `id` makes emitting it idempotent, `key` selects among waits.

    Of one name in one workspace no two have the same `at`: it is their order.
    """

    id: str
    name: str
    key: str
    payload: bytes
    at: float
    workspace: str = DEFAULT_WORKSPACE
    by: str = ""  # who emitted it
    hops: int = 0  # length of the chain of runs that led to it by events and calls


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a workflow, stored so that runs can be started without its code.

    `created_at` is when the store first wrote this version: a caller leaves it out. Replacing a version keeps
    when and by whom it was created.
    """

    name: str
    version: str
    kind: str
    hash: str = ""
    body: bytes = b"{}"
    input_schema: bytes = b"true"
    options: bytes = b"{}"
    workspace: str = DEFAULT_WORKSPACE
    title: str = ""  # for people; '': its name
    description: str = ""
    created_at: float = 0.0  # 0: before it was recorded
    created_by: str = ""

    @property
    def form(self) -> bytes | None:
        """Return the JSON Schema of the form with which a person starts it; only a graph may have one."""
        return self.manual_trigger.form

    @property
    def manual_trigger(self) -> ManualTrigger:
        return manual_trigger_of(self.body) if self.kind == "graph" else ManualTrigger()

    @property
    def content(self) -> Definition:
        """What was put, without when and by whom: two that are equal here are the same."""
        return replace(self, created_at=0.0, created_by="")


class WorkflowSwitch(NamedTuple):
    """A workflow was enabled or disabled: a disabled one accepts no new runs. `reason` is JSON."""

    workspace: str
    workflow: str
    enabled: bool
    by: str = ""
    reason: bytes = b'""'
    at: float = 0.0  # set by the store


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run as listings show it. `status` is `running` while a worker owns it."""

    id: RunId
    workspace: str
    workflow: str
    version: str
    kind: str
    status: Status
    input: bytes
    output: bytes | None
    error: bytes | None
    key: str
    parent: str
    root: str
    tags: bytes
    trigger: str
    where_at: str
    created_at: float
    started_at: float | None
    ended_at: float | None
    test: bool
    number: int = 0  # within its workflow, from 1; 0: started before numbers were given
    started_by: str = ""
    held: bool = False  # an operator stopped it; independent of its status
    done: float | None = None  # as last reported by its loop or its code; None: never
    total: float | None = None  # None: unknown
    input_tokens: int = 0  # what its steps used
    output_tokens: int = 0
    cost: float = 0.0
    owner: str = ""  # the worker that owns it now


class TicketRow(msgspec.Struct, frozen=True, kw_only=True):
    run_id: RunId
    path: str
    queue: str
    needs: str
    priority: int
    started: bool
    ending: bool
    due_at: float
    owner: str
    lease: str
    head: int
    wakes: int
    losses: int
    lane: str = ""
    held: bytes | None = None  # who holds it, since when and why; see domain/holds


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    id: WorkerId
    name: str
    queues: Sequence[str]
    needs: Sequence[str]
    lease_until: float
    leaving: bool = False  # it is stopping
    draining: DrainRequest | None = None  # it was asked to stop


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to list: newest first, or with a `prefix` by key, the last one first.

    `before` is where the previous page ended; see domain/search.
    """

    workspace: str = DEFAULT_WORKSPACE
    workflow: str = ""
    version: str = ""
    queue: str = ""
    statuses: Sequence[Status] = ()
    key: str = ""
    prefix: str = ""  # the beginning of its key
    id_prefix: str = ""  # the beginning of its id
    parent: str = ""
    trigger: str = ""
    tags: Sequence[tuple[str, str]] = ()  # runs that have all of them
    marks: Sequence[str] = ()  # hashed tags, in a database that hides them
    words: Sequence[str] = ()  # words of its error: runs that have all of them
    since: float = 0.0  # created at or after
    until: float = NEVER  # created before
    before: str = ""
    limit: int = 100
