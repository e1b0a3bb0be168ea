"""Worker: one process' share of the work. Claims, drives, keeps its lease, sweeps, stops gracefully."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from msgspec.structs import replace

from stepwell.domain.commit import Claim, Owned, Reaped, WorkerInfo
from stepwell.domain.ids import NEEDS_EMIT, NEEDS_GRAPH, NEEDS_UNSERVED, Ids, RunId, WorkerId, needs_step
from stepwell.domain.program import Program
from stepwell.domain.steps import StepSpec
from stepwell.engine.execution.step_runner import StepRunner
from stepwell.engine.run.activation import Activation
from stepwell.engine.run.services import RunLimits, Services
from stepwell.engine.worker.claimer import Claimer
from stepwell.engine.worker.committer import Committer
from stepwell.engine.worker.damaged_runs import DamagedRuns
from stepwell.engine.worker.lease_keeper import LeaseKeeper
from stepwell.engine.worker.local_starts import LocalStarts
from stepwell.engine.worker.loop_monitor import LoopMonitor, tell_held
from stepwell.engine.worker.orphans import OrphanedTickets
from stepwell.engine.worker.reaper import Reaper
from stepwell.engine.worker.release import TicketReleaser
from stepwell.engine.worker.remote_step import RemoteStep, deliver, not_begun
from stepwell.engine.worker.rerouter import Rerouter
from stepwell.engine.worker.retention import Retention
from stepwell.engine.worker.styles import STYLES
from stepwell.errors import LogDamaged, StoreError, Suspended
from stepwell.settings import Settings
from stepwell.store.base import Store
from stepwell.store.wakeups import Notifier
from stepwell.system import Clock, SystemClock

_log = logging.getLogger("stepwell.engine")

_LONG_STEP_SECONDS = 0.2  # a step that runs longer is announced in the log
_PAUSE = 0.2  # seconds, when the store does not answer
_LOOK_SECONDS = 0.1  # how often to look for such steps, and for messages to runs that are busy


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions(Settings):
    """The settings of an engine, and what the engine adds for its worker."""

    name: str = ""
    queues: Sequence[str] = ("default",)
    replay_always: bool = False


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
        options: WorkerOptions,
        graphs: Callable[[bytes], Program] | None = None,
    ) -> None:
        self.store = store
        self.notifier = notifier
        self.options = options
        self.active: dict[tuple[RunId, str], Activation | RemoteStep] = {}
        self._clock = clock
        self._ids = ids
        self._programs = programs
        self._steps = steps
        self._graphs = graphs  # makes programs of graphs that runs bring along
        self.needs = [*programs, *(needs_step(name) for name in steps), NEEDS_EMIT, NEEDS_UNSERVED]
        if graphs is not None:
            self.needs.append(NEEDS_GRAPH)
        self._info = self._new_info()
        self._committer = Committer(store)
        self._runner = StepRunner(
            threads=options.threads, workflow_threads=options.workflow_threads, processes=options.processes
        )
        self._keeper = LeaseKeeper(
            store,
            clock,
            self._info,
            heartbeat_seconds=options.heartbeat_seconds,
            holding=lambda: dict(self.active),
            owned=self._owned,
            reaped=self._reaped,
        )
        self._claimer = self._make_claimer()
        self.local_starts = self._make_own_starts()
        self._returns = TicketReleaser(
            store, self._runner, worker=lambda: self.id, note_due=self._claimer.note_due
        )
        self._damaged = DamagedRuns(store, notifier, self._returns, worker=lambda: self.id)
        self._sweeper = Reaper(store, reap_seconds=options.reap_seconds, swept=self._swept)
        self._others = Rerouter(store, options.queues, self.needs, programs, graphs)
        self._services: Services | None = None
        self._idle = asyncio.Event()
        self._look_soon = False
        self._watch = LoopMonitor()
        self._stand_ins: Mapping[str, StepSpec] = {}
        self._fanning_out: set[RunId] = set()
        self._strays = OrphanedTickets(
            store,
            clock,
            patience=options.heartbeat_seconds,
            worker=lambda: self._info.id,
            driven=lambda run_id, path: (run_id, path) in self.active or run_id in self._fanning_out,
            begin=self._begin,
            give_back=self._returns.refuse,
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
            active=lambda: len(self.active) + self.local_starts.awaited,
            worker=lambda: self._info.id,
            begin=self._begin,
            begin_late=lambda claim, now: self._strays.take(claim, now),  # noqa: PLW0108  # made later
        )

    def _make_own_starts(self) -> LocalStarts:
        return LocalStarts(
            self.store,
            self._clock,
            self._ids,
            queues=self.options.queues,
            needs=self._programs if self._graphs is None else (*self._programs, NEEDS_GRAPH),
            patience=self.options.heartbeat_seconds,
            worker=lambda: self._info.id,
            room=lambda: self._claimer.room,
            offered=self._claimer.started,
            blocked=lambda: self._claimer.blocked,
            begin=self._begin,
        )

    @property
    def id(self) -> WorkerId:
        return self._info.id

    @property
    def quiet(self) -> bool:
        """Nothing runs here and nothing waits to be written; only time can bring work."""
        return not self.active and self._committer.idle

    def wake(self) -> None:
        """Look for due tickets now."""
        self._claimer.wake()

    def stand_in(self, fakes: Mapping[str, StepSpec]) -> None:
        """For tests: these functions run in the place of the steps with their names."""
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
        await self._others.learn()
        await self._announce()

    async def _announce(self) -> None:
        """Tell the store what this worker has: others must not give up on what it serves."""
        self._info = replace(self._info, needs=tuple(self.needs))
        await self._keeper.register(self._info)

    async def run(self) -> None:
        """Work until cancelled, once it is open; `stop` first for a graceful end."""
        stop_listening = self.notifier.on_work(self._work_hinted)
        try:
            async with AsyncExitStack() as parts:
                if isinstance(self._clock, SystemClock):  # simulated workers die without a word
                    parts.enter_context(self._watch)
                group = await parts.enter_async_context(asyncio.TaskGroup())
                group.create_task(self._committer.run())
                group.create_task(self._keeper.run())
                group.create_task(self._sweeper.run())
                group.create_task(
                    self._others.run(self.options.reap_seconds, self._announce, self._claimer.wake)
                )
                group.create_task(self._claimer.run())
                group.create_task(self.local_starts.serve())
                if self.options.keep_ended_seconds is not None:
                    retention = Retention(self.store, keep_seconds=self.options.keep_ended_seconds)
                    group.create_task(retention.run())
                group.create_task(self._watch_long_steps())
        finally:
            stop_listening()
            self.local_starts.close()
            for work in list(self.active.values()):
                work.lose()
            await self._runner.close()

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
            lost_leases_max=options.lost_leases_max,
            replay_always=options.replay_always,
            lease_valid=self._keeper.valid,
            stand_ins=self._stand_ins,
            limits=RunLimits(),
            note_due=self._claimer.note_due,
            styles=STYLES,
            direct_calls=options.direct_calls,
        )

    def forget(self) -> None:
        """For simulations: this process was killed, and what it had not begun is gone with it."""
        self._runner.loop.forget()

    async def stop(self) -> None:
        """Return what has not begun, let what runs come to a pause within the grace time, sign off."""
        try:
            async with asyncio.timeout(self.options.grace_seconds):
                await self._keeper.leave()
                _log.info("worker %s stops; %d runs are under way", self._info.id, len(self.active))
                await self._claimer.stop()
                await self.local_starts.settled()
                for work in list(self.active.values()):
                    if isinstance(work, Activation):
                        work.drain()
                while self.active:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            _log.warning("%d runs did not come to a pause in time; they go on elsewhere", len(self.active))
        self.local_starts.close()
        self._keeper.stopped = True
        for work in list(self.active.values()):
            work.lose()
        try:
            await self.store.deregister(self._info.id)
        except StoreError as error:
            _log.warning("could not sign off: %s; the lease will run out", error.message)
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
                return  # asked for twice, because an answer was late
            before.lose()
        work: Activation | RemoteStep | None = None
        try:
            if claim.path:
                work = RemoteStep(self._services, claim)
                work.on_end = self._ended
            else:
                program = self._others.program(claim)
                if program is None:
                    self._returns.pass_on(claim)
                    return
                work = Activation(
                    self._services, claim, program, now, on_end=self._ended, on_move=self._claimer.moved
                )
            self.active[claim.run_id, claim.path] = work
            work.begin()
        except Exception as error:
            if work is not None:
                work.lose()
            if isinstance(error, LogDamaged) and not claim.path:
                self._runner.spawn(self._damaged.set_aside(claim, error))
                return
            _log.exception("run %s could not be taken up; it is given back", claim.run_id)
            if claim.path:
                self._runner.spawn(deliver(self._services, claim, not_begun(claim, error)))
            else:
                self._returns.give_back(claim)

    async def _fan_out(self, claim: Claim) -> None:
        self._fanning_out.add(claim.run_id)
        try:
            while True:
                try:
                    await self.store.fan_out(claim)
                    break
                except StoreError as error:  # the ticket stays ours until it is done
                    _log.warning("fan-out of event %s not answered: %s", claim.run_id, error.message)
                    await asyncio.sleep(_PAUSE)
        finally:  # after an error of ours it is a stray, which is taken up again
            self._fanning_out.discard(claim.run_id)
        self.notifier.notify_work()

    def _ended(self, work: Activation | RemoteStep) -> None:
        key = (work.claim.run_id, work.claim.path)
        if self.active.get(key) is work:
            del self.active[key]
        if isinstance(work, Activation) and work.closed is Suspended:
            self._strays.left(work.claim.lease)
        if isinstance(work, Activation) and work.damage is not None:
            self._runner.spawn(self._damaged.set_aside(work.claim, work.damage))
        elif isinstance(work, Activation) and work.broken:
            self._returns.give_back(work.claim)
        if not self.active:
            self._idle.set()
        if work.claim.limited:
            self.notifier.notify_work()  # its slot is free: whoever waits for it may be anywhere
        self._claimer.freed(work.claim.lease)

    def _work_hinted(self, run_id: RunId | None) -> None:
        self._claimer.wake()
        if run_id is None:
            if self.active:
                self._look_soon = True
        elif (run_id, "") in self.active:
            self._keeper.nudge()

    async def _watch_long_steps(self) -> None:
        """Announce steps that take long; when others hinted, look for messages to our runs."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._watch.beat()
            if self._look_soon:
                self._look_soon = False
                self._keeper.nudge()
            self._look_at_steps()

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
        """What the store says we own: stop what is missing, look at what has messages."""
        wakes = {(ticket.run_id, ticket.path): ticket.wakes for ticket in owned}
        for key, work in held.items():
            if self.active.get(key) is not work:
                continue  # it ended, and may have been claimed anew, while the store was asked
            if key not in wakes:
                work.lose()
            elif isinstance(work, Activation):
                work.woken(wakes[key])
        if not self._claimer.stopped:
            for run_id, path in self._strays.overdue(wakes):
                self._runner.spawn(self._strays.adopt(run_id, path))

    async def _reaped(self) -> None:
        """We were taken for dead: everything we had is somebody else's now. Begin anew."""
        for work in list(self.active.values()):
            work.lose()
        self._info = self._new_info()
        assert self._services is not None
        self._services.worker = self._info.id
        while True:
            try:
                await self._keeper.register(self._info)
                break
            except StoreError as error:
                _log.warning("could not register anew: %s", error.message)
                await asyncio.sleep(_PAUSE)
        if (held := self._watch.take_held()) is not None:
            self._runner.spawn(tell_held(self.store, held))
        self._claimer.wake()

    def _swept(self, reaped: Reaped) -> None:
        if reaped.solo_due:
            self._claimer.want_solo()
        if reaped.tickets:
            self._claimer.wake()
