"""PostgresStore: many processes on many machines, one PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from stepwell.domain.commit import Claim, Definition, Message, NewRun, Outcome, Started, WorkerInfo
from stepwell.store.base import BATCH_MEMBERS_MAX, ConnectionUse, must_be_plain
from stepwell.store.postgres.access import PgAccess
from stepwell.store.postgres.archive import PgArchive
from stepwell.store.postgres.cancel_retry import PgCancelRetry
from stepwell.store.postgres.claims import PgClaims
from stepwell.store.postgres.commits import PgCommits
from stepwell.store.postgres.database import COMMITS_AT_ONCE, STARTS_AT_ONCE, Database
from stepwell.store.postgres.definitions import PgDefinitions
from stepwell.store.postgres.holds import PgHolds
from stepwell.store.postgres.limits import PgLimits
from stepwell.store.postgres.maintenance import PgMaintenance
from stepwell.store.postgres.messages import PgMessages
from stepwell.store.postgres.migrate import prepare
from stepwell.store.postgres.notifications import PgNotifications
from stepwell.store.postgres.numbers import PgNumbers
from stepwell.store.postgres.pool.batcher import Batcher
from stepwell.store.postgres.pool.budget import ConnectionBudget
from stepwell.store.postgres.pool.slots import ConnectionSlots
from stepwell.store.postgres.rates import CALLS_MAX, PgRates
from stepwell.store.postgres.reads import PgReads
from stepwell.store.postgres.records import PgRecords
from stepwell.store.postgres.remote_steps import RESULTS_MAX, PgRemoteSteps
from stepwell.store.postgres.search import PgSearch
from stepwell.store.postgres.secrets import PgSecrets
from stepwell.store.postgres.starts import LARGE, STARTS_MAX, PgStarts
from stepwell.store.postgres.step_logs import PgStepLogs
from stepwell.store.postgres.transactions import PgTransactions
from stepwell.store.postgres.triggers import PgTriggers
from stepwell.store.postgres.wakeups import NO_ROOM, NotifyWakeups, is_over
from stepwell.store.postgres.workers import PgWorkers

LOOK_SECONDS = 1.0  # one look at all connections of a store; it sends nothing
LOOKS = 300  # a connection unused at that many looks is closed; a new one costs 10 ms
LOOKS_SHORT = 2  # while the server is full


class PostgresStore:
    """`dsn` is a postgresql:// URL with two options of ours: schema=name, and poll_only=1 for PgBouncer
    in transaction mode. Without `clock` time is the database's.

    Each verb is a bound method of the part that has it, so a call costs no frame of the store's.
    """

    sync_transactions = False
    commits_at_once = COMMITS_AT_ONCE
    starts_at_once = STARTS_AT_ONCE

    def __init__(self, dsn: str, *, clock: Callable[[], float] | None = None) -> None:
        self.db = db = Database(dsn, clock=clock)
        self.polls = db.address.poll_only
        self._wakeups = NotifyWakeups(db.address, self._make_way)
        self.listen, self.hint = self._wakeups.listen, self._wakeups.hint
        self.hears = self._wakeups.hears
        self._idle_check: asyncio.Task[None] | None = None
        self._warm_up: asyncio.Task[None] | None = None
        self._request: asyncio.Task[None] | None = None
        self._bind_runs(db)
        self._bind_records(db)
        self._share_connections()

    def _bind_runs(self, db: Database) -> None:
        limits = PgLimits(db)
        self.put_limit, self.drop_limit = limits.put_limit, limits.drop_limit
        self.read_limits, self.read_lanes = limits.read_limits, limits.read_lanes

        messages = PgMessages(db)
        self._deliveries = Batcher(messages.deliver, BATCH_MEMBERS_MAX)
        self._emits = Batcher(messages.emit, BATCH_MEMBERS_MAX)
        self.deliver, self.read_inbox = self._deliveries.submit, messages.read_inbox
        self.emit, self.fan_out = self._emits.submit_one, messages.fan_out
        self.read_fan_out = messages.read_fan_out
        self.published = messages.published

        self._numbers = PgNumbers(db)
        self._starts = starts = PgStarts(db, limits, self._numbers)
        self._start_calls = Batcher(starts.start, STARTS_MAX)
        rates = PgRates(db, starts)
        self._rated_calls = Batcher(rates.start_within, CALLS_MAX)
        self.start_within = self._rated_calls.submit_one
        self.put_start_rate, self.drop_start_rate = rates.put_start_rate, rates.drop_start_rate
        self.read_start_rates = rates.read_start_rates

        self._commits = commits = PgCommits(db, starts, messages)
        self._transactions = PgTransactions(db, commits)
        self.commit, self.transact = commits.commit, self._transactions.transact

        endings = PgCancelRetry(db, messages)
        self.cancel, self.retry, self.force_end = endings.cancel, endings.retry, endings.force_end
        holds = PgHolds(db, messages)
        self.hold, self.hold_scope, self.list_holds = holds.hold, holds.hold_scope, holds.list_holds

        self._claims = claims = PgClaims(db, limits)
        self.claim, self.reroute = claims.claim, claims.reroute
        self._remote_results = Batcher(PgRemoteSteps(db, messages).finish, RESULTS_MAX)

    def _bind_records(self, db: Database) -> None:
        reads = PgReads(db)
        self.now = reads.now
        self.read_log, self.read_log_end = reads.read_log, reads.read_log_end
        self.read_run, self.find_run = reads.read_run, reads.find_run
        self.read_tickets, self.list_others = reads.read_tickets, reads.list_others
        self.list_workers, self.read_queues = reads.list_workers, reads.read_queues
        self.read_schema = reads.read_schema

        search = PgSearch(db, reads)
        self.list_runs, self.count_runs = search.list_runs, search.count_runs
        self.count_buckets = search.count_buckets
        self.list_waits, self.list_decided = search.list_waits, search.list_decided
        self._workers = workers = PgWorkers(db, search)
        self.heartbeat, self.deregister, self.reap = workers.heartbeat, workers.deregister, workers.reap
        self.drain = workers.drain

        definitions = PgDefinitions(db, reads)
        self._definition_reads = Batcher(definitions.read_definitions, BATCH_MEMBERS_MAX)
        self.put_definitions = definitions.put_definitions
        self.swap_definition = definitions.swap_definition
        self.drop_definitions = definitions.drop_definitions
        self.list_definitions = definitions.list_definitions
        self.switch, self.list_switches = definitions.switch, definitions.list_switches
        self.read_codec_check = definitions.read_codec_check
        self.write_codec_check = definitions.write_codec_check

        triggers = PgTriggers(db, reads, self._starts)
        self.put_trigger, self.drop_trigger = triggers.put_trigger, triggers.drop_trigger
        self.read_trigger, self.list_triggers = triggers.read_trigger, triggers.list_triggers
        self.fire_due, self.advance_trigger = triggers.fire_due, triggers.advance_trigger

        notifications = PgNotifications(db, reads)
        self.take_notifications = notifications.take_notifications
        self.settle_notification = notifications.settle_notification
        self.purge_notifications = notifications.purge_notifications
        self.put_alert, self.drop_alert = notifications.put_alert, notifications.drop_alert
        self.list_alerts, self.take_alerts = notifications.list_alerts, notifications.take_alerts
        self.settle_alert, self.find = notifications.settle_alert, notifications.find

        access = PgAccess(db, reads)
        self.put_credential, self.read_credential = access.put_credential, access.read_credential
        self.list_credentials, self.revoke_credential = access.list_credentials, access.revoke_credential
        self.mark_used = access.mark_used
        self.add_audit, self.list_audit = access.add_audit, access.list_audit

        secrets = PgSecrets(db, reads)
        self.put_secret, self.read_secret = secrets.put_secret, secrets.read_secret
        self.list_secrets, self.drop_secret = secrets.list_secrets, secrets.drop_secret
        self.read_outdated_secrets = secrets.read_outdated_secrets
        self.rewrap_secret = secrets.rewrap_secret

        records = PgRecords(db, reads)
        self.put_collection, self.read_collection = records.put_collection, records.read_collection
        self.list_collections, self.drop_collection = records.list_collections, records.drop_collection
        self.clear_collection, self.change_record = records.clear_collection, records.change_record
        self.record_change, self.read_record = records.record_change, records.read_record
        self.find_records = records.find_records

        step_logs = PgStepLogs(db, reads)
        self.add_log_lines, self.read_log_lines = step_logs.add_log_lines, step_logs.read_log_lines

        maintenance = PgMaintenance(db, reads)
        self.read_size, self.find_faults = maintenance.read_size, maintenance.find_faults
        self.find_other_workspace = maintenance.find_other_workspace
        self.back_up, self.stored_schema = maintenance.back_up, maintenance.stored_schema

        archive = PgArchive(db, self._numbers)
        self.read_tree, self.restore, self.remove = archive.read_tree, archive.restore, archive.remove
        self.purge, self.purge_events = archive.purge, archive.purge_events

    def start(self, runs: Sequence[NewRun]) -> Coroutine[Any, Any, Sequence[Started]]:
        return self._start_calls.submit(runs) if len(runs) < LARGE else self._starts.start_large(runs)

    async def finish_remote(self, claim: Claim, result: Message) -> Outcome:
        assert result.run_id == claim.run_id, "the result of a remote step goes to its run"
        return await self._remote_results.submit_one((claim, result))

    async def read_definition(self, workspace: str, name: str, version: str = "") -> Definition | None:
        return await self._definition_reads.submit_one((workspace, name, version))

    async def register(self, worker: WorkerInfo) -> None:
        await self._workers.register(worker)
        if is_over(self._warm_up) and not self.polls:
            self._warm_up = asyncio.create_task(self._prepare_commits())

    async def _prepare_commits(self) -> None:
        """Connect and plan, 30 ms: the first commit of a new worker should not wait for that."""
        with suppress(Exception):
            await self.db.commit_slots.run(self._commits.plan_commits)

    # Opening and closing

    def connections(self) -> ConnectionUse:
        slots = self.db.all_slots
        busy = sum(each.busy for each in slots)
        return ConnectionUse(sum(each.count for each in slots), busy, sum(each.waiting for each in slots))

    async def open(self, *, encoded: bool = False) -> None:
        for slots in self._every_slots:
            slots.open()
        await self.db.side_slots.run_once(lambda connection: prepare(connection, self.db.address))
        if not encoded:
            await self._check_plain()
        self._wakeups.open()
        if is_over(self._idle_check):
            self._idle_check = asyncio.create_task(self._close_idle())

    async def _check_plain(self) -> None:
        try:
            await must_be_plain(self)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        for task in (self._idle_check, self._warm_up, self._request):
            if task is not None:
                task.cancel()
        self._idle_check = self._warm_up = self._request = None
        await self._start_calls.close()
        await self._rated_calls.close()
        await self._deliveries.close()
        await self._emits.close()
        await self._definition_reads.close()
        await self._remote_results.close()
        await self._wakeups.close()
        await self._transactions.wait()
        await self._numbers.close()
        for slots in self._every_slots:
            await slots.close()

    @property
    def _every_slots(self) -> tuple[ConnectionSlots, ...]:
        return (*self.db.all_slots, self._transactions.slots)

    # Sharing connections on a full server

    def _share_connections(self) -> None:
        ours, steps = self.db.budget, self._transactions.budget
        ours.neighbours += [steps.give_up, partial(self._give_up_hints, ours)]
        steps.neighbours += [ours.give_up, partial(self._give_up_hints, steps), self._ask_other_engines]

    async def _close_idle(self) -> None:
        budgets = (self.db.budget, self._transactions.budget)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            short = any([budget.is_short() for budget in budgets])
            for budget in budgets:
                await budget.rest(LOOKS_SHORT if short else LOOKS)

    def _give_up_hints(self, budget: ConnectionBudget) -> bool:
        """Hints only save time: close their connection when there is no other to work with."""
        return not budget.connected and self._wakeups.give_up()

    def _ask_other_engines(self) -> bool:
        """Ask for a connection when transactional steps have none and this engine can spare none."""
        if self._transactions.budget.connected or self.polls:
            return False
        if is_over(self._request):
            self._request = asyncio.create_task(self._send_request())
        return True

    async def _send_request(self) -> None:
        with suppress(Exception):
            await self.db.side_slots.run(
                lambda connection: connection.execute(f"NOTIFY \"{self._wakeups.channel}\", '{NO_ROOM}'")
            )

    def _make_way(self) -> None:
        """Close one idle connection, so that another engine, which has too few, can take its place."""
        for give_up in (self._transactions.budget.make_way, self.db.budget.make_way, self._wakeups.give_up):
            if give_up():
                return
