"""SqliteStore: the promises of `base`, kept in one file by a writer thread and a reader thread."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from stepwell.domain.commit import (
    CancelOutcome,
    Claim,
    ClaimRequest,
    Claims,
    Commit,
    Committed,
    Definition,
    Delivery,
    InboxRow,
    LogRow,
    Message,
    NewRun,
    Outcome,
    Owned,
    PublishedEvent,
    Reaped,
    RetryOutcome,
    RunFilter,
    RunRow,
    Started,
    TicketRow,
    WorkerInfo,
    WorkerRow,
)
from stepwell.domain.fork.run_copy import Purged, Removal, RunCopy
from stepwell.domain.ids import RunId, WorkerId
from stepwell.domain.lanes import LaneUse
from stepwell.domain.limits import Limit, LimitScope
from stepwell.domain.rates import RatedAnswer, RatedStart
from stepwell.store.base import PUBLISHED_MAX, REAP_CHUNK, Encode, closed, must_be_plain
from stepwell.store.sqlite import (
    archive,
    cancel_retry,
    claims,
    commits,
    database_file,
    guard,
    limits,
    rates,
    reads,
    starts,
)
from stepwell.store.sqlite import messages as deliveries
from stepwell.store.sqlite.liveness_locks import WorkerFiles
from stepwell.store.sqlite.reader import Reader
from stepwell.store.sqlite.thread_queue import Verb, each
from stepwell.store.sqlite.transactions import transact
from stepwell.store.sqlite.wakeups import Hints
from stepwell.store.sqlite.workers import Fleet, LeaseClock
from stepwell.store.sqlite.writer import Writer

L = TypeVar("L")
T = TypeVar("T")

START = Verb("start", starts.start)
START_WITHIN = Verb("start_within", rates.start_within)
COMMIT = Verb("commit", commits.commit, apart=commits.commit_apart)
TRANSACT = each("transact", transact, alone=True)
DELIVER = Verb("deliver", deliveries.deliver)
CANCEL = each("cancel", cancel_retry.cancel)
RETRY = each("retry", cancel_retry.retry)
EMIT = each("emit", deliveries.emit)
FAN_OUT = each("fan_out", deliveries.fan_out_chunk)
# Power that fails takes the claim's owner with it: without the claim the ticket is free, as it should be.
CLAIM = each("claim", claims.claim, light=claims.nothing_due, unsynced=True)
REROUTE = each("reroute", claims.reroute)
FINISH_REMOTE = each("finish_remote", claims.finish_remote)
PUT_LIMIT = each("put_limit", limits.put_limit)
DROP_LIMIT = each("drop_limit", limits.drop_limit)
DEFINE = each("define", reads.put_definitions)
SWAP = each("define", reads.swap_definition)
UNDEFINE = each("define", reads.drop_definitions)
PUT_CODEC_CHECK = each("codec_check", reads.write_codec_check)
RESTORE = each("restore", archive.restore)
REMOVE = each("remove", archive.remove)
PURGE = each("purge", archive.purge)
PURGE_EVENTS = each("purge", archive.purge_events)

LOG = each("log", reads.log)
LOG_END = each("log_end", reads.log_end)
INBOX = each("inbox", reads.inbox)
PUBLISHED = each("published", reads.published)
RUN = each("run", reads.run)
FIND_RUN = each("find_run", reads.find_run)
RUNS = each("runs", reads.runs)
TICKETS = each("tickets", reads.tickets)
OTHERS = each("others", reads.others)
DEFINITION = each("definition", reads.definition)
DEFINITIONS = each("definitions", reads.definitions)
CODEC_CHECK = each("codec_check", reads.codec_check)
LIMITS = each("limits", limits.limits)
LANES = each("lanes", limits.lanes)
TREE = each("tree", archive.read_tree)


class SqliteStore:
    turn_first = True
    polls = False
    commits_at_once = 1
    starts_at_once = 1

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] | None = None) -> None:
        """With a `clock`, leases run on it too; else they run on the host's time since boot."""
        self.path = os.path.abspath(os.fspath(path))
        self._clock = clock or time.time
        self._files = WorkerFiles(self.path)
        self._fleet = Fleet(LeaseClock(clock), self._files)
        self._hints = Hints(self.path)
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._place: guard.Place | None = None
        self._register = each("register", self._fleet.register)
        self._heartbeat = each("heartbeat", self._fleet.heartbeat, light=self._fleet.heartbeat)
        self._deregister = each("deregister", self._fleet.deregister)
        self._reap = each("reap", self._fleet.reap, light=self._fleet.nobody_dead)
        self._workers = each("workers", self._fleet.workers)

    async def open(self, *, encoded: bool = False) -> None:
        if self._writer is None:
            await asyncio.to_thread(self._open)
        if not encoded:
            try:
                await must_be_plain(self)
            except BaseException:
                await self.close()
                raise

    def _open(self) -> None:
        writing = database_file.open_writer(self.path)
        try:
            reading_only = database_file.open_reader(self.path)
        except BaseException:
            writing.close(True)
            raise
        self._place = guard.protect(self.path)
        self._writer = Writer(writing, self.path, self._place, self._clock)
        self._reader = Reader(reading_only, self.path)

    async def close(self) -> None:
        """What was asked before is done; then the log is folded into the file and everything let go."""
        writer, reader = self._writer, self._reader
        if writer is None or reader is None:
            return
        self._writer = self._reader = None
        self._hints.close()
        reader.waiting.stop()
        await asyncio.to_thread(reader.join)
        writer.waiting.stop()
        await asyncio.to_thread(writer.join)
        self._files.release_all()
        if self._place is not None:
            guard.release(self._place)

    def _write(self, verb: Verb[L, T], load: L) -> asyncio.Future[T]:
        if self._writer is None:
            raise closed(path=self.path)
        return self._writer.waiting.ask(verb, load)

    def _read(self, verb: Verb[L, T], load: L) -> asyncio.Future[T]:
        if self._reader is None:
            raise closed(path=self.path)
        return self._reader.waiting.ask(verb, load)

    async def now(self) -> float:
        return self._clock()

    # Runs

    async def start(self, runs: Sequence[NewRun]) -> Sequence[Started]:
        return await self._write(START, runs)

    async def start_within(self, asked: RatedStart) -> RatedAnswer:
        return await self._write(START_WITHIN, asked)

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Committed]:
        return await self._write(COMMIT, batch)

    async def transact(
        self, body: Callable[[Any], Any], turn: Callable[[Any], Awaitable[Commit] | Commit]
    ) -> Committed:
        return await self._write(TRANSACT, (body, turn))

    async def cancel(self, run_id: RunId, reason: str, *, encode: Encode = bytes) -> CancelOutcome:
        return await self._write(CANCEL, (run_id, reason, encode))

    async def retry(self, run_id: RunId, *, needs: str = "", undo: bool = False) -> RetryOutcome:
        return await self._write(RETRY, (run_id, needs, undo))

    # Inbox

    async def deliver(self, messages: Sequence[Message]) -> Sequence[Delivery]:
        return await self._write(DELIVER, messages)

    async def read_inbox(self, run_id: RunId, *, after: int = 0) -> Sequence[InboxRow]:
        return await self._read(INBOX, (run_id, after))

    async def emit(self, event: PublishedEvent) -> bool:
        return await self._write(EMIT, event)

    async def fan_out(self, claim: Claim) -> None:
        after: str | None = ""
        while after is not None:
            after = await self._write(FAN_OUT, (claim, after))

    async def published(
        self, name: str, key: str, *, since: float, limit: int = PUBLISHED_MAX
    ) -> Sequence[PublishedEvent]:
        return await self._read(PUBLISHED, (name, key, since, limit))

    # Tickets

    async def register(self, worker: WorkerInfo) -> None:
        await self._write(self._register, worker)

    async def claim(self, request: ClaimRequest) -> Claims:
        return await self._write(CLAIM, request)

    async def reroute(self, run_id: RunId, *, needs: str, to: str) -> bool:
        return await self._write(REROUTE, (run_id, needs, to))

    async def finish_remote(self, claim: Claim, result: Message) -> Outcome:
        return await self._write(FINISH_REMOTE, (claim, result))

    async def heartbeat(self, worker: WorkerId) -> Sequence[Owned] | None:
        owned = await self._write(self._heartbeat, worker)
        if owned is None:
            self._fleet.left(worker)
        return owned

    async def deregister(self, worker: WorkerId) -> None:
        await self._write(self._deregister, worker)
        self._fleet.left(worker)

    async def reap(self) -> Reaped:
        workers, tickets = 0, 0
        while True:
            dead, reaped = await self._write(self._reap, None)
            for worker in dead:
                self._fleet.left(worker)
            workers += reaped.workers
            tickets += reaped.tickets
            if reaped.tickets < REAP_CHUNK:
                return Reaped(workers, tickets, reaped.solo_due)

    # Reading

    async def read_log(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> Sequence[LogRow]:
        return await self._read(LOG, (run_id, after, limit))

    async def read_log_end(self, run_id: RunId, *, count: int = 1) -> Sequence[LogRow]:
        return await self._read(LOG_END, (run_id, count))

    async def read_run(self, run_id: RunId) -> RunRow | None:
        return await self._read(RUN, run_id)

    async def find_run(self, workspace: str, key: str) -> RunId | None:
        return await self._read(FIND_RUN, (workspace, key))

    async def list_runs(self, filter: RunFilter) -> Sequence[RunRow]:
        return await self._read(RUNS, filter)

    async def read_tickets(self, run_id: RunId) -> Sequence[TicketRow]:
        return await self._read(TICKETS, run_id)

    async def list_others(self, queues: Sequence[str], needs: Sequence[str]) -> Sequence[TicketRow]:
        return await self._read(OTHERS, (queues, needs))

    async def list_workers(self) -> Sequence[WorkerRow]:
        return await self._read(self._workers, self._clock())

    # Archive

    async def read_tree(self, run_id: RunId, *, children: bool = True) -> Sequence[RunCopy]:
        return await self._read(TREE, (run_id, children))

    async def restore(self, copies: Sequence[RunCopy]) -> Sequence[Started]:
        return await self._write(RESTORE, copies)

    async def remove(self, run_id: RunId) -> Removal:
        return await self._write(REMOVE, run_id)

    async def purge(self, older_than: float, *, after: str = "") -> Purged:
        return await self._write(PURGE, (older_than, after))

    async def purge_events(self, older_than: float) -> int:
        return await self._write(PURGE_EVENTS, older_than)

    # Definitions

    async def put_definitions(self, definitions: Sequence[Definition]) -> None:
        await self._write(DEFINE, definitions)

    async def swap_definition(self, definition: Definition, *, expected: str) -> bool:
        return await self._write(SWAP, (definition, expected))

    async def read_definition(self, workspace: str, name: str, version: str = "") -> Definition | None:
        return await self._read(DEFINITION, (workspace, name, version))

    async def drop_definitions(self, workspace: str, *names: str) -> int:
        return await self._write(UNDEFINE, (workspace, names))

    async def list_definitions(self, workspace: str) -> Sequence[Definition]:
        return await self._read(DEFINITIONS, workspace)

    async def read_codec_check(self) -> bytes | None:
        return await self._read(CODEC_CHECK, None)

    async def write_codec_check(self, value: bytes, *, expected: bytes | None) -> bool:
        return await self._write(PUT_CODEC_CHECK, (value, expected))

    # Limits

    async def put_limit(self, limit: Limit) -> None:
        await self._write(PUT_LIMIT, limit)

    async def drop_limit(self, scope: LimitScope) -> bool:
        return await self._write(DROP_LIMIT, scope)

    async def read_limits(self) -> Sequence[Limit]:
        return await self._read(LIMITS, None)

    async def read_lanes(self) -> Sequence[LaneUse]:
        return await self._read(LANES, None)

    # Wakeups

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._hints.listen(callback)

    def hint(self) -> None:
        self._hints.hint()
