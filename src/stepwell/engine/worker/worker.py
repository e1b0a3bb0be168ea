"""Worker: one process' share of the work. Claims, drives, keeps its lease, reaps, stops gracefully."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from stepwell.domain.commit import Claim, Owned, Reaped, WorkerInfo
from stepwell.domain.control_flow import CodeLeft
from stepwell.domain.ids import NEEDS_EMIT, NEEDS_GRAPH, NEEDS_UNSERVED, Ids, RunId, WorkerId, needs_step
from stepwell.domain.program import Program
from stepwell.domain.steps import StepSpec
from stepwell.domain.triggers.event_runs import Condition, unconditional
from stepwell.engine.execution.attempt import OpenSecrets
from stepwell.engine.execution.step_log import observed_output
from stepwell.engine.execution.step_runner import StepRunner
from stepwell.engine.run.activation import Activation
from stepwell.engine.run.services import RunLimits, Services
from stepwell.engine.worker.claimer import Claimer
from stepwell.engine.worker.committer import Committer
from stepwell.engine.worker.damaged_runs import DamagedRuns
from stepwell.engine.worker.event_starts import EventStarts
from stepwell.engine.worker.leases import LeaseKeeper, Reaper
from stepwell.engine.worker.local_starts import LocalStarts
from stepwell.engine.worker.loop_monitor import LoopMonitor, report_held
from stepwell.engine.worker.next_look import NextLook
from stepwell.engine.worker.orphans import OrphanedTickets
from stepwell.engine.worker.releaser import TicketReleaser
from stepwell.engine.worker.remote_step import RemoteStep, deliver, failed_to_start
from stepwell.engine.worker.rerouter import Rerouter
from stepwell.engine.worker.retention import Retention
from stepwell.engine.worker.roster import Roster
from stepwell.engine.worker.scheduler import Scheduler
from stepwell.engine.worker.source_runner import FindsEvents, SourceRunner
from stepwell.engine.worker.step_log_writer import StepLogWriter
from stepwell.engine.worker.styles import STYLES
from stepwell.errors import LogDamaged, StoreError
from stepwell.settings import Settings
from stepwell.store.base import Store
from stepwell.store.outage import outlast
from stepwell.store.wakeups import Notifier
from stepwell.system import Clock, SystemClock
from stepwell.telemetry.measures import WorkerMeasures
from stepwell.telemetry.spans import configured

_log = logging.getLogger("stepwell.engine")

_LONG_STEP_SECONDS = 0.2  # a step that runs longer is announced in the log
_LAST_LINES_SECONDS = 2.0
_LOOK_SECONDS = 0.1  # how often to look for such steps, and for messages to busy runs


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions(Settings):
    """The settings of an engine, and what the engine adds for its worker."""

    name: str = ""
    queues: Sequence[str] = ("default",)
    replay_always: bool = False
    workspace: str = ""  # workspace in which the engine stores its workflows
    approvals_channel: str = ""  # channel that notifies assignees of approvals


class Worker:
    def __init__(
        self,
        store: Store,
        notifier: Notifier,
        clock: Clock,
        ids: Ids,
        *,
        programs: Mapping[str, Program],
        steps: Mapping[str, StepSpec],
        provided: Mapping[str, StepSpec] = MappingProxyType({}),
        options: WorkerOptions,
        graphs: Callable[[bytes], Program] | None = None,
        open_secrets: OpenSecrets | None = None,
        redact: Callable[[bytes], bytes] | None = None,
        holds: Condition = unconditional,
        sources: Mapping[str, FindsEvents] | None = None,
    ) -> None:
        self.store, self.notifier = store, notifier
        self.options = options
        self._clock, self._ids = clock, ids
        self._programs, self._steps, self._provided = programs, steps, provided
        self._open_secrets, self._redact = open_secrets, redact
        self._graphs = graphs  # builds programs from graphs that runs carry
        self.needs = [*programs, *(needs_step(name) for name in steps), NEEDS_EMIT, NEEDS_UNSERVED]
        if graphs is not None:
            self.needs.append(NEEDS_GRAPH)
        self._info = self._new_info()
        self.roster = Roster(self._info.id)
        self.active = self.roster.active
        notifier.owns = lambda run_id: (run_id, "") in self.active
        self.measures = WorkerMeasures()
        self._committer = Committer(store, self.measures)
        self._step_logs = StepLogWriter(
            store, notifier, clock, token=ids.worker_id(), bytes_max=options.step_log_bytes_max
        )
        self._runner = StepRunner(
            threads=options.threads,
            workflow_threads=options.workflow_threads,
            processes=options.processes,
            measures=self.measures,
        )
        self._keeper = self._make_keeper()
        self._claimer = self._make_claimer()
        self.local_starts = self._make_local_starts()
        self._releaser = TicketReleaser(store, self._runner, self.roster, note_due=self._claimer.note_due)
        self._damaged = DamagedRuns(store, notifier, self._releaser, self.roster)
        self._reaper = Reaper(store, every_seconds=options.reap_seconds, reaped=self._others_reaped)
        self._rerouter = Rerouter(store, options.queues, self.needs, programs, graphs)
        self._scheduler = self._make_scheduler()
        self._event_starts = EventStarts(store, ids, holds, payload_bytes_max=options.payload_bytes_max)
        self._holds, self._sources = holds, sources or {}
        self._next_source = NextLook(clock)
        self._services: Services | None = None
        self._idle, self._look_soon = asyncio.Event(), False
        self._loop_monitor = LoopMonitor()
        self._stand_ins: Mapping[str, StepSpec] = {}
        self._orphans = self._make_orphans()

    def _make_keeper(self) -> LeaseKeeper:
        return LeaseKeeper(
            self.store,
            self._clock,
            self._info,
            heartbeat_seconds=self.options.heartbeat_seconds,
            holding=self.active.copy,
            owned=self._owned,
            reaped=self._reaped,
        )

    def _make_orphans(self) -> OrphanedTickets:
        return OrphanedTickets(
            self.store,
            self._clock,
            self.roster,
            overdue_seconds=self.options.heartbeat_seconds,
            begin=self._begin,
            release=self._releaser.release_unused,
        )

    def _make_claimer(self) -> Claimer:
        return Claimer(
            self.store,
            self._clock,
            self._ids,
            queues=self.options.queues,
            needs=self.needs,
            poll_seconds=self.options.poll_seconds,
            solo_seconds=self.options.lease_seconds,
            fresh_share=self.options.fresh_share,
            slots=self.options.slots,
            active=self.roster.slots_used,
            worker=self.roster.worker_id,
            begin=self._begin,
            begin_late=self._begin_late,
            measures=self.measures,
        )

    def _make_scheduler(self) -> Scheduler:
        return Scheduler(
            self.store,
            self._clock,
            self._ids,
            poll_seconds=self.options.poll_seconds,
            payload_bytes_max=self.options.payload_bytes_max,
            started=self.notifier.notify_work,
        )

    def _source_runner(self) -> SourceRunner:
        return SourceRunner(
            self.store,
            self._ids,
            self._holds,
            sources=self._sources,
            next_look=self._next_source,
            lease_seconds=self.options.lease_seconds,
            poll_seconds=self.options.poll_seconds,
            payload_bytes_max=self.options.payload_bytes_max,
            started=self.notifier.notify_work,
        )

    def _make_local_starts(self) -> LocalStarts:
        return LocalStarts(
            self.store,
            self._clock,
            self._ids,
            self.roster,
            self._claimer,
            queues=self.options.queues,
            needs=self._programs if self._graphs is None else (*self._programs, NEEDS_GRAPH),
            late_seconds=self.options.heartbeat_seconds,
            begin=self._begin,
        )

    @property
    def id(self) -> WorkerId:
        return self._info.id

    @property
    def quiet(self) -> bool:
        """Whether nothing runs here and nothing waits to be written: only time can bring work."""
        return not self.active and self._committer.idle and self._step_logs.idle

    def wake(self) -> None:
        """Look for due tickets now."""
        self._claimer.wake()

    def stand_in(self, fakes: Mapping[str, StepSpec]) -> None:
        """For tests: run these functions instead of the steps with their names."""
        self._stand_ins = fakes
        if self._services is not None:
            self._services.stand_ins = fakes

    def _new_info(self) -> WorkerInfo:
        return WorkerInfo(
            id=self._ids.worker_id(),
            lease_seconds=self.options.lease_seconds,
            name=self.options.name,
            queues=tuple(self.options.queues),
            needs=tuple(self.needs),
        )

    # Life

    async def open(self) -> None:
        """Announce this worker to the store: from here on it may own runs."""
        self._services = self._make_services()
        await self._rerouter.learn()
        await self._announce()

    async def _announce(self) -> None:
        """Register what this worker has: others must not give up on runs that it serves."""
        self._info = replace(self._info, needs=tuple(self.needs))
        await self._keeper.register(self._info)

    async def run(self) -> None:
        """Work until cancelled or drained, once it is open. Call `stop` first for a graceful end."""
        stop_listening = self.notifier.on_work(self._work_hinted)
        try:
            async with AsyncExitStack() as parts:
                if isinstance(self._clock, SystemClock):  # not in simulations, whose workers just vanish
                    parts.enter_context(self._loop_monitor)
                    parts.enter_context(_loaded_skipped())
                parts.enter_context(observed_output(self.options.step_logs))
                group = await parts.enter_async_context(asyncio.TaskGroup())
                tasks = [group.create_task(part) for part in self._parts()]
                await self._keeper.draining.wait()
                await self.stop()
                for task in tasks:
                    task.cancel()
        finally:
            stop_listening()
            self.local_starts.close()
            for work in list(self.active.values()):
                work.lose()
            await self._runner.close()

    def _parts(self) -> Iterator[Coroutine[Any, Any, None]]:
        yield self._committer.run()
        yield self._step_logs.run()
        yield self._keeper.run()
        yield self._reaper.run()
        yield self._rerouter.run(self.options.reap_seconds, self._announce, self._claimer.wake)
        yield self._claimer.run()
        yield self.local_starts.serve()
        yield self._scheduler.run()
        yield self._source_runner().run()
        if self.options.keep_ended_seconds is not None:
            yield Retention(self.store, keep_seconds=self.options.keep_ended_seconds).run()
        yield self._watch_long_steps()

    def _make_services(self) -> Services:
        options = self.options
        return Services(
            store=self.store,
            committer=self._committer,
            runner=self._runner,
            notifier=self.notifier,
            clock=self._clock,
            ids=self._ids,
            loop=asyncio.get_running_loop(),
            programs=self._programs,
            steps=self._steps,
            worker=self._info.id,
            payload_bytes_max=options.payload_bytes_max,
            keep_lease_seconds=options.keep_lease_seconds,
            child_depth_max=options.child_depth_max,
            workspace=options.workspace,
            approvals_channel=options.approvals_channel,
            lost_leases_max=options.lost_leases_max,
            replay_always=options.replay_always,
            lease_valid=self._keeper.valid,
            stand_ins=self._stand_ins,
            provided=self._provided,
            limits=RunLimits(),
            note_due=self._claimer.note_due,
            styles=STYLES,
            direct_calls=options.direct_calls,
            step_inputs=options.step_inputs == "on",
            step_logs=None if options.step_logs == "off" else self._step_logs,
            step_timeout=options.step_timeout_seconds,
            open_secrets=self._open_secrets,
            redact=self._redact,
            spans=configured(self._info.id),
            history_warn=options.history_warn,
            history_max=options.history_max,
        )

    def forget(self) -> None:
        """For simulations: this process was killed, and the steps it had not begun are gone."""
        self._runner.loop.forget()

    async def stop(self) -> None:
        """Let the runs come to a pause within the grace time, then deregister. No new run begins."""
        try:
            async with asyncio.timeout(self.options.grace_seconds):
                await self._keeper.leave()
                _log.info("worker %s stops; %d runs are active", self._info.id, len(self.active))
                self._scheduler.stopped = True
                await self._claimer.stop()
                await self.local_starts.settled()
                for work in list(self.active.values()):
                    if isinstance(work, Activation):
                        work.drain()
                while self.active:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            _log.warning("%d runs did not come to a pause in time; they continue elsewhere", len(self.active))
        self.local_starts.close()
        self._keeper.stopped = True
        for work in list(self.active.values()):
            work.lose()
        await self._step_logs.settled(_LAST_LINES_SECONDS)
        try:
            await self.store.deregister(self._info.id)
        except StoreError as error:
            _log.warning("could not deregister: %s; the lease will run out", error.message)
        self.notifier.notify_work()

    # Work

    def _begin(self, claim: Claim, now: float) -> None:
        assert self._services is not None
        if claim.needs == NEEDS_EMIT:
            self._runner.spawn(self._fan_out(claim))
            return
        before = self.active.get((claim.run_id, claim.path))
        if before is not None:
            if before.claim.lease == claim.lease:
                return  # claimed twice, because an answer was late
            before.lose()
        work: Activation | RemoteStep | None = None
        try:
            if claim.path:
                work = RemoteStep(self._services, claim, now)
                work.on_end = self._ended
            else:
                program = self._rerouter.program(claim)
                if program is None:
                    self._releaser.reroute(claim)
                    return
                work = Activation(
                    self._services, claim, program, now, on_end=self._ended, on_move=self._claimer.moved
                )
            self.active[claim.run_id, claim.path] = work
            self.notifier.notify_status()
            work.begin()
        except Exception as error:
            if work is not None:
                work.lose()
            if isinstance(error, LogDamaged) and not claim.path:
                self._runner.spawn(self._damaged.set_aside(claim, error))
                return
            _log.exception("run %s could not be started; it is released", claim.run_id)
            if claim.path:
                self._runner.spawn(deliver(self._services, claim, failed_to_start(claim, error)))
            else:
                self._releaser.release(claim)

    def _begin_late(self, claim: Claim, now: float) -> None:
        self._orphans.begin_late(claim, now)

    async def _fan_out(self, claim: Claim) -> None:
        self.roster.fanning_out.add(claim.run_id)
        try:  # the ticket stays ours until it is done
            await outlast(lambda: self._event_starts.start(claim), "runs of event %s", claim.run_id)
            await outlast(lambda: self.store.fan_out(claim), "fan-out of event %s", claim.run_id)
        finally:  # after an error of ours it is an orphaned ticket, which is taken up again
            self.roster.fanning_out.discard(claim.run_id)
        self.notifier.notify_work()

    def _ended(self, work: Activation | RemoteStep) -> None:
        key = (work.claim.run_id, work.claim.path)
        if self.active.get(key) is work:
            del self.active[key]
        if isinstance(work, Activation) and work.closed is CodeLeft:
            self._orphans.note_released(work.claim.lease)
        if isinstance(work, Activation) and work.damage is not None:
            self._runner.spawn(self._damaged.set_aside(work.claim, work.damage))
        elif isinstance(work, Activation) and work.broken:
            self._releaser.release(work.claim)
        if not self.active:
            self._idle.set()
        if work.claim.limited:
            self.notifier.notify_work()  # its slot is free: the run that waits for it may be anywhere
        self._claimer.freed(work.claim.lease)

    def _work_hinted(self, run_id: RunId | None) -> None:
        self._claimer.wake()
        if run_id is None:
            self._scheduler.next_look.hint()
            self._next_source.hint()
            if self.active:
                self._look_soon = True
        elif (run_id, "") in self.active:
            self._keeper.nudge()

    async def _watch_long_steps(self) -> None:
        """Announce steps that take long; after a hint from elsewhere, look for messages to our runs."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._loop_monitor.beat()
            if self._look_soon:
                self._look_soon = False
                self._keeper.nudge()
            self._look_at_steps()
            self.measures.settle()

    def _look_at_steps(self) -> None:
        now = self._clock.monotonic()
        for execution in list(self._runner.running):
            execution.look(now)
        mark = now - _LONG_STEP_SECONDS
        for work in list(self.active.values()):
            if isinstance(work, Activation):
                work.note_long(mark)

    # The lease

    def _owned(
        self, held: Mapping[tuple[RunId, str], Activation | RemoteStep], owned: Sequence[Owned]
    ) -> None:
        """The store says what we own: stop the work that is missing there, wake the runs with messages."""
        wakes = {(ticket.run_id, ticket.path): ticket.wakes for ticket in owned}
        stopped = {(ticket.run_id, ticket.path) for ticket in owned if ticket.held}
        for key, work in held.items():
            if self.active.get(key) is not work:
                continue  # it ended, and may have been claimed again, while the store was asked
            if key not in wakes:
                self.measures.leases_lost += 1
                work.lose()
            elif isinstance(work, Activation):
                work.woken(wakes[key])
                if key in stopped:
                    work.drain(held=True)
        if not self._claimer.stopped:
            for run_id, path in self._orphans.overdue(wakes):
                self._runner.spawn(self._orphans.adopt(run_id, path))

    async def _reaped(self) -> None:
        """We were presumed dead: everything we owned belongs to others now. Register as a new worker."""
        for work in list(self.active.values()):
            self.measures.leases_lost += 1
            work.lose()
        self._info = self._new_info()
        self.roster.worker = self._info.id
        assert self._services is not None
        self._services.worker = self._info.id
        await outlast(lambda: self._keeper.register(self._info), "registering again")
        if (held := self._loop_monitor.take_held()) is not None:
            self._runner.spawn(report_held(self.store, held))
        self._claimer.wake()

    def _others_reaped(self, reaped: Reaped) -> None:
        if reaped.solo_due:
            self._claimer.want_solo()
        if reaped.tickets:
            self._claimer.wake()


@contextmanager
def _loaded_skipped() -> Iterator[None]:
    """Let collections of garbage skip what the process has loaded: it is most of what there is, and stays.

    Looking through it took an eighth of the time of short runs. A program that has called gc.freeze itself
    keeps its choice.
    """
    is_chosen = gc.get_freeze_count() > 0
    if not is_chosen:
        gc.freeze()
    try:
        yield
    finally:
        if not is_chosen:
            gc.unfreeze()
