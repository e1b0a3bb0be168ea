"""Store: the promises every backend keeps.

Each verb that writes is one transaction: it happens wholly or changes nothing, and it may be
repeated with the same key. Rules of a run are decided in `domain`; a store only keeps promises
of atomicity, order and time. The order of locks is: workers, limits sorted, tickets sorted by (run_id, path),
start windows sorted, triggers, start keys sorted, the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from stepwell.domain.commit import (
    DEFAULT_WORKSPACE,
    Beat,
    CancelOutcome,
    Claim,
    ClaimRequest,
    Claims,
    Commit,
    Committed,
    Definition,
    Delivery,
    DrainRequest,
    HoldOutcome,
    InboxRow,
    LogRow,
    Message,
    NewEvent,
    NewRun,
    Outcome,
    PublishedEvent,
    Reaped,
    RetryOutcome,
    RunFilter,
    RunRow,
    Started,
    TicketRow,
    WorkerInfo,
    WorkerRow,
    WorkflowSwitch,
)
from stepwell.domain.fork.run_copy import Purged, Removal, RunCopy
from stepwell.domain.ids import RunId, WorkerId
from stepwell.domain.lanes import LaneUse
from stepwell.domain.limits import Limit, LimitScope
from stepwell.domain.queues import QueueUse
from stepwell.domain.rates import RatedAnswer, RatedStart, StoredRate
from stepwell.domain.scope_holds import ScopeHold
from stepwell.domain.search import (
    BucketCount,
    BucketFilter,
    DecidedFilter,
    DecidedRow,
    RunCount,
    WaitFilter,
    WaitRow,
)
from stepwell.domain.step_log import LINES_PAGE, LogLineRow, NewLogLine
from stepwell.errors import CodecMissing, StoreUnavailable
from stepwell.store.administration import AccessStore, Maintenance, SecretStore
from stepwell.store.notification_store import NotificationStore
from stepwell.store.record_store import RecordStore
from stepwell.store.trigger_store import TriggerStore

BATCH_MEMBERS_MAX = 500
BATCH_BYTES_MAX = 8 * 1024 * 1024
INBOX_READ_MAX = 500
REAP_CHUNK = 500
FAN_OUT_CHUNK = 500
PUBLISHED_MAX = 500
EVENT_STEP_SECONDS = 1e-6  # between two events of a name that come at the same time
INBOX_MAX = 10_000
SOLO_LOSSES = 2  # a run that lost this many owners is taken alone
PURGE_PAGE = 500
CREDENTIALS_KEPT_SECONDS = 30 * 86_400.0  # sessions and links, after they expired
EVENTS_KEPT_SECONDS = 86_400.0  # at least: a run that begins to wait looks back at earlier events


Encode: TypeAlias = Callable[[bytes], bytes]  # from JSON to the stored bytes


def closed(**where: str) -> StoreUnavailable:
    """The error for a caller that uses a store before open() or after close()."""
    return StoreUnavailable("the store is closed", hint="open it first, and use it before close()", **where)


async def must_be_plain(store: Codecs) -> None:
    """Refuse to open an encoded store without a codec: it would write values that the others cannot read."""
    if await store.read_codec_check() is not None:
        raise CodecMissing


class Runs(Protocol):
    async def start(self, runs: Sequence[NewRun]) -> Sequence[Started]:
        """Write run, first event and ticket of each; a key that exists returns its run instead.

        Each run gets the next number of its workflow. Numbers are never given twice; concurrent starters may
        get them in another order, and one that dies may leave a gap.
        A new run of a disabled workflow is refused (`disabled`). As the child of a commit it is written as a
        failed run, and its parent gets the notice of that end.
        A run that names an owner and is due goes to that worker at once (`claim`), if no limits are set.
        After an unknown outcome the same call may be made again: the keys decide. To get the tickets it had
        given to an owner, call `claim` with their leases.
        """
        ...

    async def start_within(self, asked: RatedStart) -> RatedAnswer:
        """As `start`, and count the runs that are new in all these windows; Full: nothing was written.

        Windows are shared by all callers that name them and are changed together with the runs: never more
        than `most` runs are started in any `seconds` of the store's time. Runs whose key exists do not count.
        """
        ...

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Committed]:
        """Write the batch in one transaction, judging each member by its own fence.

        Members are for different runs. A member that is not `ok` leaves no trace, makes no
        delivery and never fails the others. After a connection error the same batch may be sent
        again: a member whose head has moved is `ok` if the log shows its own events (they follow a
        Claimed with its lease), else `lost`; a pure park or keep without events is `lost`.
        """
        ...

    async def transact(
        self, body: Callable[[Any], Any], turn: Callable[[Any], Awaitable[Commit] | Commit]
    ) -> Committed:
        """Run `body(connection)` and the commit that `turn(result)` returns in one transaction.

        Not `ok`: the body's writes are rolled back too. An error of the body rolls back and is raised.
        If `sync_transactions` is set, `body` and `turn` are plain functions called on the writer's thread.
        """
        ...

    async def cancel(
        self, run_id: RunId, reason: str, *, by: str = "", encode: Encode = bytes
    ) -> CancelOutcome:
        """End a run that nobody ever owned and notify its parent; else leave a `cancel` message, due now.

        The event or message that holds the reason is passed through `encode`.
        """
        ...

    async def retry(
        self,
        run_id: RunId,
        *,
        needs: str = "",
        undo: bool = False,
        skipped: NewEvent | None = None,
        head: int | None = None,
        by: str = "",
        reason: str = "",
        encode: Encode = bytes,
    ) -> RetryOutcome:
        """Give a run that failed or timed out a new ticket and append Retried.

        The second caller gets `not_failed`.

        `needs` is what its worker must have; '' is its workflow in its version.

        `undo` is written into Retried: the worker undoes the run instead of continuing it.

        `skipped` is the result of its failed step: it is appended after Retried, which names its path.
        `head`: only if the log still ends there. If not, somebody has continued the run: `not_failed`.

        A run that has begun to compensate gets no ticket: its steps are undone.
        """
        ...

    async def hold(
        self, run_id: RunId, *, held: bool = True, by: str = "", reason: str = "", encode: Encode = bytes
    ) -> HoldOutcome:
        """Hold a run, or release it: from the commit on, nobody takes a ticket of a held one.

        Appends Held or Released if nobody owns the run and no earlier change waits in its inbox; otherwise
        leaves a `hold` message for the owner. Messages still arrive, and due times do not change.
        A cancel releases the run. Once it cleans up, it cannot be held (`ending`).
        """
        ...

    async def hold_scope(self, hold: ScopeHold) -> bool:
        """Hold a workflow, queue or workspace, or release it; False: it was so before.

        From the commit on, no ticket of its runs is taken, except by runs that clean up, and heartbeats show
        the owners of its runs that they are held.
        """
        ...

    async def list_holds(self, workspace: str) -> Sequence[ScopeHold]:
        """The last change of each scope that was ever held, sorted by kind and name."""
        ...

    async def force_end(
        self, run_id: RunId, reason: str, *, by: str = "", encode: Encode = bytes
    ) -> CancelOutcome:
        """End a run as cancelled, owned or not: append Cancelled, delete its tickets, waits and messages.

        Notifies its parent and asks its live children to cancel, except for detached ones. The commits of an
        owner that had it are `lost` from then on.
        """
        ...


class Inbox(Protocol):
    async def deliver(self, messages: Sequence[Message]) -> Sequence[Delivery]:
        """Leave each message in its run's inbox and make its ticket due (never before `not_before`)."""
        ...

    async def read_inbox(self, run_id: RunId, *, after: int = 0) -> Sequence[InboxRow]:
        """At most INBOX_READ_MAX messages with n > after, oldest first."""
        ...

    async def emit(self, event: PublishedEvent) -> bool:
        """Write the event and a fan-out ticket for it (needs `emit`); False: that id was emitted before.

        `event.at` is ignored: the store's time counts. It is the event's place among those of its name:
        later than that of any other of them that could be read before, and never the same.
        """
        ...

    async def read_fan_out(self, claim: Claim) -> PublishedEvent | None:
        """The event of a claimed fan-out; None: another worker has its ticket, or has finished it."""
        ...

    async def fan_out(self, claim: Claim) -> None:
        """Send a claimed event to all runs of its workspace with a matching wait, then drop its ticket.

        The message's key is `evt/<id>`, its name the path of the run's earliest matching wait. It only says
        that an event came; `published` says which event is the run's next.
        In chunks, each its own transaction; repeating after a crash is harmless.
        """
        ...

    async def published(
        self,
        name: str,
        key: str,
        *,
        since: float,
        limit: int = PUBLISHED_MAX,
        workspace: str = DEFAULT_WORKSPACE,
    ) -> Sequence[PublishedEvent]:
        """The first events of that name with at >= since, in their order; a wait with key '' takes any key.

        Only those of that workspace: names in another one have nothing to do with it.

        A reader that sees an event sees all earlier ones of its name.
        """
        ...


class Tickets(Protocol):
    async def register(self, worker: WorkerInfo) -> None:
        """Announce a live process; only then may it claim."""
        ...

    async def claim(self, request: ClaimRequest) -> Claims:
        """Take due tickets: cleaning up first, then started before fresh, priority, due time.

        The first `fresh` places go to fresh tickets, if there are any.

        Log and inbox are read after the lease was taken, so `max(seq) = head` and no message
        counted in `wakes` is missing. A worker without a row gets nothing. After an
        unknown outcome ask again with the same leases: what they took is returned, nothing more.
        Tickets of a lane are taken in the same order, and never more than its limits allow, also when
        several workers claim at the same time.
        """
        ...

    async def reroute(self, run_id: RunId, *, needs: str, to: str) -> bool:
        """Change the needs of a run's ticket from `needs` to `to`.

        False: the ticket is leased, it needs something else, or the run has ended.
        """
        ...

    async def finish_remote(self, claim: Claim, result: Message) -> Outcome:
        """Delete the remote ticket (fence: its lease) and deliver the result to its run."""
        ...

    async def heartbeat(self, worker: WorkerId) -> Beat | None:
        """Extend this worker's lease and return everything it owns; None: it was reaped."""
        ...

    async def drain(self, worker: WorkerId, request: DrainRequest) -> bool | None:
        """Ask a worker to stop: its heartbeats say so from now on. False: it was asked before; None: unknown.

        It lasts until the worker is gone, also if it registers again under the same id.
        """
        ...

    async def deregister(self, worker: WorkerId) -> None:
        """Delete the worker; tickets that it still owns are free at once and do not count as losses."""
        ...

    async def reap(self) -> Reaped:
        """Delete workers whose lease ran out and free their tickets, and tickets without a worker.

        Only if the workers were in contact with the store for one lease, so that an outage of the
        store does not look like the death of all of them.
        """
        ...


class Reading(Protocol):
    async def read_log(
        self,
        run_id: RunId,
        *,
        after: int = 0,
        limit: int = 1000,
        bytes_max: int | None = None,
        kinds: Sequence[str] = (),
        path: str = "",
    ) -> Sequence[LogRow]:
        """The next events. With `bytes_max` the last one is that with which the payloads reach it.

        With `kinds` or `path` only the events of these kinds, or about that path; `bytes_max` has no effect.
        """
        ...

    async def read_log_end(self, run_id: RunId, *, count: int = 1) -> Sequence[LogRow]:
        """The last `count` events, oldest first; no others are read, however long the log is."""
        ...

    async def read_run(self, run_id: RunId) -> RunRow | None: ...
    async def find_run(self, workspace: str, key: str) -> RunId | None: ...
    async def list_runs(self, filter: RunFilter) -> Sequence[RunRow]:
        """The next runs of that list, along the index that leaves the fewest to look at."""
        ...

    async def count_runs(self, workspace: str) -> Sequence[RunCount]:
        """How many runs there are of each workflow, version, queue and status, sorted; no zeros.

        Read from counts that each start and end changes; no run is looked at that has no owner now.
        """
        ...

    async def count_buckets(self, filter: BucketFilter) -> Sequence[BucketCount]:
        """How many runs were created in each bucket of time, by status, sorted; no zeros.

        Read from the index of groups alone; no run is looked at that has no owner now.
        """
        ...

    async def list_waits(self, filter: WaitFilter) -> Sequence[WaitRow]:
        """The next open waits of all runs, newest first."""
        ...

    async def list_decided(self, filter: DecidedFilter) -> Sequence[DecidedRow]:
        """The next decided approvals of all runs that are still here, the last one first."""
        ...

    async def read_tickets(self, run_id: RunId) -> Sequence[TicketRow]: ...
    async def list_others(self, queues: Sequence[str], needs: Sequence[str]) -> Sequence[TicketRow]:
        """For each queue and kind of work that none of these needs covers, the ticket that is claimed first.

        Only free tickets, due or not, whatever the limits are. Sorted by queue and needs.
        """
        ...

    async def read_queues(self, workspace: str, *, now: float) -> Sequence[QueueUse]:
        """What the queues hold, sorted by queue; of all workspaces if it is ''."""
        ...

    async def list_workers(self) -> Sequence[WorkerRow]:
        """Workers that were not reaped, including one whose lease is over but that may come back."""
        ...

    async def now(self) -> float: ...

    async def read_schema(self) -> SchemaVersion:
        """Which schema the database has now; another process may have changed it since it was opened."""
        ...


class Archive(Protocol):
    async def read_tree(self, run_id: RunId, *, children: bool = True) -> Sequence[RunCopy]:
        """The run and, with `children`, all below it, parents first, as they were at one moment.

        Empty: there is no such run.
        """
        ...

    async def restore(self, copies: Sequence[RunCopy], *, starts: bool = False) -> Sequence[Started]:
        """Write these runs as they are, all or none, each with the next number of its workflow.

        With `starts` they are new runs: if the workflow of one is disabled, all are refused (`disabled`).

        A run whose id or key is there already is answered with `created=False` and the run that is in
        the way; then nothing is written, and the others say `created=False` with their own id.
        """
        ...

    async def remove(self, run_id: RunId) -> Removal:
        """Delete an ended run and all below it; nothing when any of them is live."""
        ...

    async def purge(self, older_than: float, *, after: str = "") -> Purged:
        """Of the next PURGE_PAGE runs after that id, delete the trees that ended `older_than` seconds ago.

        A tree is deleted as a whole, when all its runs have ended before then. Locked rows are left for
        the next time. Ids sort by creation time, so the walk ends at young runs.
        """
        ...

    async def purge_events(self, older_than: float) -> int:
        """Delete at most PURGE_PAGE broadcast events emitted `older_than` seconds ago; return how many.

        Never one that is younger than EVENTS_KEPT_SECONDS, that has yet to be fanned out, that a row of
        `waits` with its name and key (an open wait or a cursor) may still take, or that is a delivery to a
        run which has not ended.
        """
        ...


class Definitions(Protocol):
    async def put_definitions(self, definitions: Sequence[Definition]) -> None:
        """Write each version; one that exists is replaced (code is identified by its version)."""
        ...

    async def swap_definition(self, definition: Definition, *, expected: str) -> bool:
        """Put it if the stored version has the hash `expected`, or if '' is expected and there is none.

        False: another definition is stored, and stays. Of several calls at the same time one gets True;
        repeated after an unknown outcome, the call is True if its definition was put.
        """
        ...

    async def read_definition(self, workspace: str, name: str, version: str = "") -> Definition | None:
        """That version, or the latest one put."""
        ...

    async def list_definitions(self, workspace: str, *names: str) -> Sequence[Definition]:
        """All versions of these names, or of all without names, in the order in which they were put."""
        ...

    async def drop_definitions(self, workspace: str, *names: str) -> int:
        """Delete all versions of these names; return how many. Existing runs are not affected."""
        ...

    async def switch(self, switch: WorkflowSwitch) -> bool:
        """Enable or disable a workflow, with or without a definition; False: it was so before.

        From the commit on, starts of a disabled workflow are refused. Its runs continue.
        """
        ...

    async def list_switches(self, workspace: str) -> Sequence[WorkflowSwitch]:
        """The last change of each workflow that was ever disabled, sorted by name."""
        ...


class Codecs(Protocol):
    async def read_codec_check(self) -> bytes | None:
        """The stored check; b"": payloads are encoded, but no check was written; None: they are plain."""
        ...

    async def write_codec_check(self, value: bytes, *, expected: bytes | None) -> bool:
        """Replace `expected` with it. False: another value is stored, and stays."""
        ...


class LimitStore(Protocol):
    async def put_limit(self, limit: Limit) -> None:
        """Set or replace the limit of that scope; the next claim counts by it."""
        ...

    async def drop_limit(self, scope: LimitScope) -> bool:
        """Delete it, so that the limits in the runs' own definitions apply again; False: there was none."""
        ...

    async def read_limits(self) -> Sequence[Limit]:
        """Limits that were put, sorted by scope."""
        ...

    async def read_lanes(self) -> Sequence[LaneUse]:
        """Current use, sorted by lane."""
        ...

    async def put_start_rate(self, rate: StoredRate) -> None:
        """Set or replace the start rate of that kind and length; callers read it before they start runs."""
        ...

    async def drop_start_rate(self, per: str, seconds: float) -> bool:
        """Delete it, so that those given to engines apply again; False: there was none."""
        ...

    async def read_start_rates(self) -> Sequence[StoredRate]:
        """Start rates that were put, sorted by kind and length."""
        ...


class StepLogStore(Protocol):
    async def add_log_lines(self, lines: Sequence[NewLogLine]) -> None:
        """Write these lines after the others of their runs; those that are there already stay as they are.

        No lease is needed: nothing but people reads them. Lines of a run that does not exist are dropped.
        Readers see the lines of a run in the order of their numbers: never one before an earlier one.
        """
        ...

    async def read_log_lines(
        self, run_id: RunId, *, path: str = "", attempt: int = 0, after: int = 0, limit: int = LINES_PAGE
    ) -> Sequence[LogLineRow]:
        """The next lines of a run, or of the step at `path`, with n > after; attempt 0: of all attempts."""
        ...


class Wakeups(Protocol):
    def listen(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back with the text of each hint of another process; returns how to stop.

        A hint may repeat or be missed. `ask` comes when hints may have been missed.
        """
        ...

    def hint(self, text: str = "") -> None:
        """Send other processes a hint. Equal ones are sent once; never waits, never fails."""
        ...

    def hears(self) -> bool:
        """Whether hints of other processes arrive at the moment, once somebody listens."""
        ...


class SchemaVersion(NamedTuple):
    stored: int
    known: int  # to this process


class ConnectionUse(NamedTuple):
    """Connections or threads of a store, those that are busy, and the calls that wait for one."""

    most: int
    busy: int
    waiting: int


class Store(
    Runs,
    Inbox,
    Tickets,
    Reading,
    Archive,
    Definitions,
    Codecs,
    TriggerStore,
    RecordStore,
    NotificationStore,
    LimitStore,
    AccessStore,
    SecretStore,
    StepLogStore,
    Maintenance,
    Wakeups,
    Protocol,
):
    """Everything a backend provides. Callers ask for the narrowest part they need."""

    sync_transactions: bool  # transact() calls plain functions on a writer thread
    polls: bool  # hints from other processes do not arrive: look often
    commits_at_once: int  # how many commit batches may be under way
    starts_at_once: int  # how many large calls of `start` run side by side

    def connections(self) -> ConnectionUse:
        """How busy the way to the database is, in this process."""
        ...

    async def open(self, *, encoded: bool = False) -> None:
        """Connect, create or migrate the schema; refuse what cannot be used, with a reason.

        Raises CodecMissing if its payloads are encoded and the caller has no codec (`encoded` is False).
        """
        ...

    async def close(self) -> None: ...
