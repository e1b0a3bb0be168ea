"""SqliteStore: one file, with a writer thread and a reader thread."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from stepwell.domain.commit import Beat, Claim, DrainRequest, Reaped, WorkerInfo, WorkerRow
from stepwell.domain.ids import WorkerId
from stepwell.domain.records import Decide, RecordPlace
from stepwell.errors import StepwellError
from stepwell.store.base import REAP_CHUNK, ConnectionUse, closed, must_be_plain
from stepwell.store.sqlite import (
    access,
    archive,
    cancel_retry,
    claims,
    commits,
    database_file,
    definitions,
    guard,
    holds,
    limits,
    maintenance,
    messages,
    notifications,
    rates,
    reads,
    records,
    remote_steps,
    search,
    secrets,
    starts,
    step_logs,
    transactions,
    triggers,
)
from stepwell.store.sqlite.liveness_locks import WorkerFiles
from stepwell.store.sqlite.reader import Reader
from stepwell.store.sqlite.session import Session
from stepwell.store.sqlite.thread_queue import Verb, each
from stepwell.store.sqlite.wakeups import SocketWakeups
from stepwell.store.sqlite.workers import Fleet, LeaseClock
from stepwell.store.sqlite.writer import Writer

L = TypeVar("L")
P = ParamSpec("P")
T = TypeVar("T")

# A method of the store with the parameters of the function it calls, without the session.
Method = Callable[Concatenate["SqliteStore", P], Coroutine[Any, Any, T]]


def _write_grouped(
    name: str,
    work: Callable[[Session, Sequence[L]], Sequence[T]],
    *,
    apart: Callable[[Session, Sequence[L]], Sequence[T]] | None = None,
) -> Callable[[SqliteStore, L], Coroutine[Any, Any, T]]:
    """A verb that writes the calls of many tasks with the same few statements."""
    verb = Verb(name, work, apart=apart)

    @wraps(work)
    async def method(store: SqliteStore, load: L, /) -> T:
        return await store._write(verb, load)

    return method


def _write(
    name: str,
    do: Callable[Concatenate[Session, P], T],
    *,
    alone: bool = False,
    light: Callable[Concatenate[Session, P], T | None] | None = None,
    unsynced: bool = False,
) -> Method[P, T]:
    verb = each(name, do, alone=alone, light=light, unsynced=unsynced)

    @wraps(do)
    async def method(store: SqliteStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store._write(verb, (args, kwargs))

    return method


def _read(do: Callable[Concatenate[Session, P], T]) -> Method[P, T]:
    verb = each(do.__name__, do)

    @wraps(do)
    async def method(store: SqliteStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store._read(verb, (args, kwargs))

    return method


class SqliteStore:
    sync_transactions = True
    polls = False
    commits_at_once = 1
    starts_at_once = 1

    # Runs

    start = _write_grouped("start", starts.start)
    start_within = _write_grouped("start_within", rates.start_within)
    commit = _write_grouped("commit", commits.commit, apart=commits.commit_apart)
    transact = _write("transact", transactions.transact, alone=True)
    cancel = _write("cancel", cancel_retry.cancel)
    retry = _write("retry", cancel_retry.retry)
    hold = _write("hold", holds.hold)
    hold_scope = _write("hold_scope", holds.hold_scope)
    list_holds = _read(holds.list_holds)
    force_end = _write("force_end", cancel_retry.force_end)

    # Inbox

    deliver = _write_grouped("deliver", messages.deliver)
    read_inbox = _read(messages.read_inbox)
    emit = _write("emit", messages.emit)
    _fan_out_chunk = _write("fan_out", messages.fan_out_chunk)
    published = _read(messages.published)
    read_fan_out = _read(messages.read_fan_out)

    # Tickets

    # A power failure takes the claim's owner with it: without the claim the ticket is free, as it should be.
    claim = _write("claim", claims.claim, light=claims.nothing_due, unsynced=True)
    reroute = _write("reroute", claims.reroute)
    finish_remote = _write("finish_remote", remote_steps.finish_remote)

    # Reading

    read_log = _read(reads.read_log)
    read_log_end = _read(reads.read_log_end)
    read_run = _read(reads.read_run)
    find_run = _read(reads.find_run)
    list_runs = _read(search.list_runs)
    count_runs = _read(search.count_runs)
    count_buckets = _read(search.count_buckets)
    list_waits = _read(search.list_waits)
    list_decided = _read(search.list_decided)
    read_tickets = _read(reads.read_tickets)
    read_queues = _read(reads.read_queues)
    read_schema = _read(database_file.read_schema)
    list_others = _read(reads.list_others)

    # Archive

    read_tree = _read(archive.read_tree)
    restore = _write("restore", archive.restore)
    remove = _write("remove", archive.remove)
    purge = _write("purge", archive.purge)
    purge_events = _write("purge", archive.purge_events)

    # Definitions

    put_definitions = _write("define", definitions.put_definitions)
    swap_definition = _write("define", definitions.swap_definition)
    read_definition = _read(definitions.read_definition)
    drop_definitions = _write("define", definitions.drop_definitions)
    list_definitions = _read(definitions.list_definitions)
    switch = _write("switch", definitions.switch)
    list_switches = _read(definitions.list_switches)
    read_codec_check = _read(definitions.read_codec_check)
    write_codec_check = _write("codec_check", definitions.write_codec_check)

    # Triggers

    put_trigger = _write("put_trigger", triggers.put_trigger)
    read_trigger = _read(triggers.read_trigger)
    list_triggers = _read(triggers.list_triggers)
    drop_trigger = _write("drop_trigger", triggers.drop_trigger)
    fire_due = _write("fire_due", triggers.fire_due, light=triggers.nothing_due)
    advance_trigger = _write("advance_trigger", triggers.advance_trigger)

    # Notifications

    take_notifications = _write(
        "notifications", notifications.take_notifications, light=notifications.no_notification_due
    )
    settle_notification = _write("notifications", notifications.settle_notification)
    purge_notifications = _write("notifications", notifications.purge_notifications)
    put_alert = _write("alerts", notifications.put_alert)
    list_alerts = _read(notifications.list_alerts)
    drop_alert = _write("alerts", notifications.drop_alert)
    take_alerts = _write("alerts", notifications.take_alerts, light=notifications.no_alert_due)
    settle_alert = _write("alerts", notifications.settle_alert)
    find = _read(notifications.find)

    # Limits

    put_limit = _write("put_limit", limits.put_limit)
    drop_limit = _write("drop_limit", limits.drop_limit)
    read_limits = _read(limits.read_limits)
    read_lanes = _read(limits.read_lanes)
    put_start_rate = _write("put_start_rate", rates.put_start_rate)
    drop_start_rate = _write("drop_start_rate", rates.drop_start_rate)
    read_start_rates = _read(rates.read_start_rates)

    # Access

    put_credential = _write("access", access.put_credential)
    read_credential = _read(access.read_credential)
    list_credentials = _read(access.list_credentials)
    revoke_credential = _write("access", access.revoke_credential)
    mark_used = _write("access", access.mark_used)
    add_audit = _write("access", access.add_audit)
    list_audit = _read(access.list_audit)

    # Secrets

    put_secret = _write("secrets", secrets.put_secret)
    read_secret = _read(secrets.read_secret)
    list_secrets = _read(secrets.list_secrets)
    drop_secret = _write("secrets", secrets.drop_secret)
    read_outdated_secrets = _read(secrets.read_outdated_secrets)
    rewrap_secret = _write("secrets", secrets.rewrap_secret)

    # Records

    put_collection = _write("collections", records.put_collection)
    read_collection = _read(records.read_collection)
    list_collections = _read(records.list_collections)
    drop_collection = _write("collections", records.drop_collection)
    clear_collection = _write("collections", records.clear_collection)
    _change_record = _write("records", records.change_record)
    read_record = _read(records.read_record)
    find_records = _read(records.find_records)

    # Logs of steps

    add_log_lines = _write("add_log_lines", step_logs.add_log_lines)
    read_log_lines = _read(step_logs.read_log_lines)

    # Maintenance

    read_size = _read(maintenance.read_size)
    find_faults = _read(maintenance.find_faults)
    find_other_workspace = _read(maintenance.find_other_workspace)

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] | None = None) -> None:
        """With a `clock`, leases run on it too; otherwise they run on the host's time since boot."""
        self.path = os.path.abspath(os.fspath(path))
        self._clock = clock or time.time
        self._files = WorkerFiles(self.path)
        self._fleet = Fleet(LeaseClock(clock), self._files)
        self._wakeups = SocketWakeups(self.path)
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._place: guard.Place | None = None
        self._register = each("register", self._fleet.register)
        self._heartbeat = each("heartbeat", self._fleet.heartbeat, light=self._fleet.heartbeat)
        self._drain = each("drain", self._fleet.drain)
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
        """Finish the calls that wait, fold the write-ahead log into the file, and release everything."""
        writer, reader = self._writer, self._reader
        if writer is None or reader is None:
            return
        self._writer = self._reader = None
        self._wakeups.close()
        reader.queue.stop()
        await asyncio.to_thread(reader.join)
        writer.queue.stop()
        await asyncio.to_thread(writer.join)
        self._files.release_all()
        if self._place is not None:
            guard.release(self._place)

    def _write(self, verb: Verb[L, T], load: L) -> asyncio.Future[T]:
        if self._writer is None:
            raise closed(path=self.path)
        return self._writer.queue.submit(verb, load)

    def _read(self, verb: Verb[L, T], load: L) -> asyncio.Future[T]:
        if self._reader is None:
            raise closed(path=self.path)
        return self._reader.queue.submit(verb, load)

    async def stored_schema(self) -> int:
        return await asyncio.to_thread(maintenance.stored_schema, self.path)

    async def back_up(self, path: str) -> int:
        if self._reader is None:
            raise closed(path=self.path)
        return await asyncio.to_thread(maintenance.back_up, self.path, path)

    async def now(self) -> float:
        return self._clock()

    async def fan_out(self, claim: Claim) -> None:
        after: str | None = ""
        while after is not None:
            after = await self._fan_out_chunk(claim, after)

    # Records

    async def change_record(self, place: RecordPlace, decide: Decide) -> Any:
        result = await self._change_record(place, decide)
        if isinstance(result, StepwellError):
            raise result
        return result

    def record_change(self, place: RecordPlace, decide: Decide) -> Callable[[Any], Any]:
        return transactions.RecordBody(partial(records.change, place=place, decide=decide))

    # Workers

    async def register(self, worker: WorkerInfo) -> None:
        await self._write(self._register, ((worker,), {}))

    async def heartbeat(self, worker: WorkerId) -> Beat | None:
        beat = await self._write(self._heartbeat, ((worker,), {}))
        if beat is None:
            self._fleet.left(worker)
        return beat

    async def drain(self, worker: WorkerId, request: DrainRequest) -> bool | None:
        return await self._write(self._drain, ((worker, request), {}))

    async def deregister(self, worker: WorkerId) -> None:
        await self._write(self._deregister, ((worker,), {}))
        self._fleet.left(worker)

    async def reap(self) -> Reaped:
        workers, tickets = 0, 0
        while True:
            dead, reaped = await self._write(self._reap, ((), {}))
            for worker in dead:
                self._fleet.left(worker)
            workers += reaped.workers
            tickets += reaped.tickets
            if reaped.tickets < REAP_CHUNK:
                return Reaped(workers, tickets, reaped.solo_due)

    async def list_workers(self) -> Sequence[WorkerRow]:
        return await self._read(self._workers, ((self._clock(),), {}))

    def connections(self) -> ConnectionUse:
        queues = [part.queue for part in (self._writer, self._reader) if part is not None]
        waiting = sum(len(queue) for queue in queues)
        return ConnectionUse(len(queues), sum(bool(len(queue)) for queue in queues), waiting)

    # Wakeups

    def listen(self, callback: Callable[[str], None]) -> Callable[[], None]:
        return self._wakeups.listen(callback)

    def hint(self, text: str = "") -> None:
        self._wakeups.hint(text)

    def hears(self) -> bool:
        return self._wakeups.hears()
