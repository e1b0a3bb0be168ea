"""Stateless runs: the same program, no store, one pass in memory.

A run here is an activation whose commits are answered at once and forgotten. Its children run beside it in
the same way. Nothing survives the process, and nobody outside can talk to the run, so a wait that only a
message could end is an error, unless the message is one of `signals`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from stepwell.domain import events as ev
from stepwell.domain.codec import encoded_by_type
from stepwell.domain.commit import (
    NEVER,
    Claim,
    Commit,
    Committed,
    Finish,
    InboxRow,
    LogRow,
    Message,
    NewRun,
    Outcome,
    Park,
    PublishedEvent,
)
from stepwell.domain.events import Problem
from stepwell.domain.ids import LeaseId, RunId, WorkerId
from stepwell.domain.new_run import NO_INPUT, new_run, startable
from stepwell.domain.problems import run_error
from stepwell.domain.program import Program, Startable, needs_of
from stepwell.domain.status import Status
from stepwell.engine.execution.step_runner import StepRunner
from stepwell.engine.run.activation import Activation
from stepwell.engine.run.services import RunLimits, Services
from stepwell.engine.worker.styles import STYLES
from stepwell.errors import InvalidInput, InvalidRequest, StatelessWait, UnknownWorkflow, excerpt
from stepwell.store.wakeups import Notifier
from stepwell.system import Clock, SystemClock, SystemIds

In = TypeVar("In")
R = TypeVar("R")

_LEASE = LeaseId("stateless")
_LOOK_SECONDS = 0.1
_THREADS = 32
_DEPTH_MAX = 10
_PAYLOAD_BYTES_MAX = 2 * 1024 * 1024

Written = Callable[[Committed, Park | Finish | None], None]


async def run_stateless(
    workflow: Startable[In, R],
    input: In = NO_INPUT,
    *,
    signals: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
    workflows: Iterable[Program] = (),
    clock: Clock | None = None,
) -> R:
    """Run a workflow of any style once, in memory, and return its result. Nothing is written anywhere.

    `signals` are there from the beginning: `{"approve": {...}}` answers `ctx.signal("approve")` and
    triggers a machine's `approve`. `workflows` are those that it calls as children.
    """
    startable(workflow)
    pairs, programs = _signal_pairs(signals), _programs(workflows)
    pass_ = _Pass([workflow, *programs], clock or SystemClock())  # type: ignore[list-item]  # they are programs
    try:
        ended = await pass_.run(workflow, input, pairs)
    finally:
        await pass_.close()
    if ended.status is Status.COMPLETED:
        return workflow.decode_result(ended.output or b"null")
    problem = msgspec.json.decode(ended.error, type=Problem) if ended.error else None
    raise run_error(ended.status, problem, "(stateless)")


def _signal_pairs(signals: Any) -> list[tuple[str, Any]]:
    items = signals.items() if isinstance(signals, Mapping) else signals
    pairs = list(items) if isinstance(items, Iterable) and not isinstance(items, str | bytes) else [items]
    for pair in pairs:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise InvalidInput(
                f"run_stateless(signals=...): {excerpt(pair)} is not a signal: a name and a payload",
                hint='write signals={"approve": {...}}, or [("approve", {...}), ...] to repeat a name',
            )
    return [(name, payload) for name, payload in pairs]


def _programs(workflows: Any) -> list[Program]:
    programs: list[Program] = list(workflows) if isinstance(workflows, Iterable) else [workflows]
    for program in programs:
        startable(program)
    return programs


class _Run:
    """One run and its messages."""

    def __init__(self) -> None:
        self.activation: Activation | None = None
        self.inbox: list[InboxRow] = []
        self.log: list[LogRow] = []
        self.wakes = 0
        self.parked: tuple[Commit, Written] | None = None  # it waits for a message


class _Pass:
    """Everything that belongs to one call of run_stateless: store, committer and worker in one."""

    polls = False
    sync_transactions = False

    def __init__(self, programs: Sequence[Program], clock: Clock) -> None:
        self._programs = {needs_of(program.definition): program for program in programs}
        self._clock = clock
        self._ids = SystemIds()
        self._runs: dict[RunId, _Run] = {}
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[Finish] = self._loop.create_future()
        self._main = RunId("")
        self._runner = StepRunner(threads=_THREADS, workflow_threads=_THREADS, processes=1)
        this: Any = self  # an activation asks little of its store and committer
        self._services = Services(
            store=this,
            committer=self,
            runner=self._runner,
            notifier=Notifier(),
            clock=clock,
            ids=self._ids,
            loop=self._loop,
            programs=self._programs,
            steps={},
            worker=WorkerId("stateless"),
            payload_bytes_max=_PAYLOAD_BYTES_MAX,
            keep_lease_seconds=NEVER,  # it never parks for time: it sleeps here
            child_depth_max=_DEPTH_MAX,
            lost_leases_max=1 << 30,
            replay_always=False,
            lease_valid=lambda: True,
            stand_ins={},
            provided={},
            limits=RunLimits(),
            note_due=lambda seconds: None,
            styles=STYLES,
        )

    async def run(
        self, workflow: Startable[In, Any], input: In, signals: Sequence[tuple[str, Any]]
    ) -> Finish:
        self._main = self._ids.run_id()
        new = new_run(
            workflow,
            input,
            what="the input",
            bytes_max=_PAYLOAD_BYTES_MAX,
            run_id=self._main,
            key="",
            seed=self._ids.token(),
        )
        run = self._runs[self._main] = _Run()
        for name, payload in signals:
            self._lay(run, f"signal/{run.wakes}", "signal", name, encoded_by_type(payload))
        self._begin(new, run)
        while not self._done.done():
            await asyncio.wait({self._done}, timeout=_LOOK_SECONDS)
            now = self._clock.monotonic()
            for execution in list(self._runner.running):
                execution.look(now)
        return self._done.result()

    async def close(self) -> None:
        for run in list(self._runs.values()):
            if run.activation is not None:
                run.activation.lose()
        await self._runner.close()

    # Runs

    def _begin(self, new: NewRun, run: _Run) -> None:
        program = self._programs.get(new.needs)
        if program is None:
            raise UnknownWorkflow(
                f"a stateless run does not know {excerpt(new.workflow)}",
                hint="name its children: run_stateless(..., workflows=[...])",
            )
        now = self._clock.time()
        log = [LogRow(1, "accepted", "", 0, now, new.accepted)]
        run.log = log
        claim = Claim(new.id, "", new.needs, _LEASE, 1, run.wakes, 0, "", log, tuple(run.inbox))
        run.activation = Activation(self._services, claim, program, now)
        run.activation.begin()

    def _lay(self, run: _Run, key: str, kind: str, name: str, payload: bytes) -> None:
        run.wakes += 1
        run.inbox.append(InboxRow(key, run.wakes, kind, name, payload, self._clock.time()))

    def _fail(self, error: BaseException) -> None:
        if not self._done.done():
            self._done.set_exception(error)

    # What an activation asks of a committer

    def submit(self, commit: Commit, size: int, written: Written) -> None:
        self._loop.call_soon(self._commit, commit, written)

    def _commit(self, commit: Commit, written: Written) -> None:
        try:
            self._apply(commit, written)
        except Exception as error:
            self._fail(error)

    def _apply(self, commit: Commit, written: Written) -> None:
        run, then = self._runs[commit.run_id], commit.then
        if commit.tickets_opened:
            raise InvalidRequest(
                f"{commit.tickets_opened[0].path} is for queue {excerpt(commit.tickets_opened[0].queue)}",
                hint="a stateless run has no queues: leave out ctx.step.on(queue=...)",
            )
        if then is not None and then.seen != run.wakes:
            written(Committed(Outcome.WOKEN, run.wakes, self._clock.time()), then)
            return
        if isinstance(then, Park):
            if not (_says_something(commit) or commit.consumed or commit.cross_run):
                run.parked = (commit, written)
                self._look_if_stuck()
                return
            then = None  # first what it says; then it asks again to park, with nothing left to say
        for event in commit.events:
            run.log.append(event.row(len(run.log) + 1, self._clock.time()))
        taken = set(commit.consumed)
        run.inbox = [row for row in run.inbox if row.key not in taken]
        for new in commit.starts:
            if new.id not in self._runs:
                self._runs[new.id] = _Run()
                self._loop.call_soon(self._begin_child, new)
        for message in commit.deliveries:
            self._deliver(message)
        if isinstance(then, Finish):
            del self._runs[commit.run_id]
        written(Committed(Outcome.OK, run.wakes, self._clock.time()), then)
        if isinstance(then, Finish):
            if commit.run_id == self._main and not self._done.done():
                self._done.set_result(then)
            self._look_if_stuck()

    def _begin_child(self, new: NewRun) -> None:
        try:
            if new.id in self._runs:
                self._begin(new, self._runs[new.id])
        except Exception as error:
            self._fail(error)

    def _deliver(self, message: Message) -> None:
        run = self._runs.get(message.run_id)
        if run is None:
            return
        self._lay(run, message.key, message.kind, message.name, message.payload)
        parked, run.parked = run.parked, None
        if parked is not None:
            commit, written = parked
            woken = Committed(Outcome.WOKEN, run.wakes, self._clock.time())
            self._loop.call_soon(written, woken, commit.then)
        elif run.activation is not None:
            run.activation.woken(run.wakes)

    def _look_if_stuck(self) -> None:
        """Fail when every run waits for a message: nobody can send one."""
        parked = [run.parked for run in self._runs.values()]
        if self._main in self._runs and all(parked):
            main = self._runs[self._main]
            assert main.parked is not None
            then = main.parked[0].then
            assert isinstance(then, Park)
            text = f"a stateless run cannot continue: {then.where_at}"
            self._fail(StatelessWait(text, hint=_in_vain(main.log)))

    # What an activation asks of a store

    async def read_inbox(self, run_id: RunId, *, after: int = 0) -> Sequence[InboxRow]:
        run = self._runs.get(run_id)
        return [row for row in run.inbox if row.n > after] if run is not None else []

    async def read_log(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> Sequence[LogRow]:
        run = self._runs.get(run_id)
        return run.log[after : after + limit] if run is not None else []

    async def read_run(self, run_id: RunId) -> None:
        return None

    async def read_definition(self, workspace: str, name: str, version: str = "") -> None:
        """There are no workflows but those of the call."""
        return None

    async def published(
        self, name: str, key: str, *, since: float, limit: int = 0, workspace: str = ""
    ) -> Sequence[PublishedEvent]:
        return ()

    async def transact(self, body: object, turn: object) -> Committed:
        raise InvalidRequest(
            "a transactional step needs a database", hint="run the workflow on an Engine, or fake the step"
        )


def _says_something(commit: Commit) -> bool:
    """Return whether it has events other than the one that every pause records."""
    return any(event.kind != ev.KIND[ev.Suspended] for event in commit.events)


def _in_vain(log: Sequence[LogRow]) -> str:
    """The signals that did not help; '' for the usual hint."""
    refused: list[str] = []
    left: dict[str, str] = {}
    for row in log:
        fact = ev.read(row).fact
        if isinstance(fact, ev.Received) and fact.rejected:
            refused.append(f"{excerpt(fact.name)} was given, but does not fit: {fact.rejected}")
            left.pop(fact.key, None)
        elif isinstance(fact, ev.Received) and fact.what == "signal":
            left[fact.key] = fact.name
        elif isinstance(fact, ev.WaitEnded):
            left.pop(fact.received, None)
    return "; ".join(
        refused + [f"{excerpt(name)} was given, but nothing waits for it" for name in left.values()]
    )
