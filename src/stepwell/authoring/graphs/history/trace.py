"""GraphTrace: what happened in a graph run, node by node, derived from its log.

The frontier decides again over the recorded answers; its decisions, with the times of the facts they
follow from, are the trace. So the trace needs no rows of its own and cannot disagree with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from stepwell.authoring.graphs.build.plan import GraphPlan
from stepwell.authoring.graphs.nodes.stand_in import StandInWork
from stepwell.authoring.graphs.nodes.waits import webhook_paths
from stepwell.authoring.graphs.run.frontier import Frontier
from stepwell.authoring.graphs.run.node_start import WAIT_TIMEOUT, called_code
from stepwell.authoring.graphs.run.state import (
    SETTLED,
    Command,
    CommandKind,
    Failure,
    NodeRun,
    NodeStatus,
    ScopeRun,
    failure_of,
)
from stepwell.domain import events as ev
from stepwell.domain.codec import PLAIN
from stepwell.domain.events import Event
from stepwell.domain.fork.prefix import Delivered, settles
from stepwell.domain.problems import child_problem
from stepwell.domain.status import Status

_LOOKED_UP = "@find"  # follows the path of a node that calls a workflow


@dataclass(slots=True, kw_only=True)
class NodeEntry:
    """One node in one scope."""

    order: int  # the order of decisions: a total order even between parallel branches
    path: str  # scopePath/node
    node: str
    type: str
    status: NodeStatus
    predecessors: list[str] = field(default_factory=list)
    depth: int = 0  # how many containers are around it
    branch: str = ""  # the join whose branch it belongs to
    iteration: int | None = None
    attempts: int = 0
    inputs: Any = None
    output: Any = None
    handles: list[str] = field(default_factory=list)
    error: dict[str, Any] | None = None
    pinned: bool = False
    queued_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    worker: str = ""
    title: str = ""
    config: Any = None
    is_config_error: bool = False
    forks: list[tuple[str, int]] = field(default_factory=list)  # forks around it, innermost first


@dataclass(slots=True)
class GraphTrace:
    entries: list[NodeEntry]
    history: list[tuple[str, float]]  # statuses of the run, with their times
    progress: dict[str, tuple[int, int | None]]  # loop path -> iterations done, total
    delivered: list[Delivered] = field(default_factory=list)  # events that the run's mailbox delivered
    unasked: set[str] = field(default_factory=set)  # paths whose answers no command asked for

    def by_path(self) -> dict[str, NodeEntry]:
        return {entry.path: entry for entry in self.entries}


def _before(scope: ScopeRun, cause: str) -> list[str]:
    """The finally of a try follows its whole body, and the node that cancelled the try."""
    owner = scope.owner.node if scope.owner is not None else None
    if scope.owner is None or owner is None or owner.body is None or scope.plan is not owner.ending:
        return []
    body = [scope.prefix + node.id for node in owner.body.nodes]
    return [*body, cause] if cause and scope.owner.status is NodeStatus.CANCELLED else body


def _behaviour(command: Command) -> Any:
    return None if command.node_run is None else command.node_run.node.behaviour


def trace(plan: GraphPlan, run_id: str, events: Iterable[Event]) -> GraphTrace:
    """Return the trace of a run of this plan. Its expressions see the run's own id."""
    log = list(events)
    reader = GraphReplay(plan, run_id)
    reader.feed(log)
    entries = sorted(reader.entries.values(), key=lambda entry: entry.order)
    return GraphTrace(entries, reader.history, reader.progress, reader.delivered, reader.unasked)


Describe = Callable[[NodeEntry, NodeRun], None]


class GraphReplay:
    """Decides a run again from its log, one whole commit at a time: a fact and everything after it."""

    def __init__(self, plan: GraphPlan, run_id: str, describe: Describe | None = None) -> None:
        self.plan = plan
        self._run_id = run_id
        self._describe = describe  # copies the node run into its entry when the node begins
        self._log: list[Event] = []
        self._at = 0
        self._values: dict[str, Raw] = {}
        self._prefix = "0/"
        self._dropped: set[int] = set()  # indexes of answers that a retry of the run took back

    def feed(self, events: Iterable[Event]) -> None:
        begins = not self._log
        for event in events:
            self._log.append(event)
            if isinstance(event.fact, ev.ValueRecorded):
                self._values[event.path] = event.fact.value
        if begins:
            self._begin()
        self._read()

    @property
    def frontier(self) -> Frontier:
        return self._frontier

    def _begin(self) -> None:
        self.entries: dict[str, NodeEntry] = {}
        self.history: list[tuple[str, float]] = []
        self.progress: dict[str, tuple[int, int | None]] = {}
        self._commands: dict[str, Command] = {}
        self._messages: dict[str, Any] = {}
        self.delivered: list[Delivered] = []
        self.unasked: set[str] = set()
        self._posted: dict[int, tuple[str, Any]] = {}  # by identity: the message's key and content
        self._seq, self._cause = 0, ""
        self._now = 0.0
        self._worker = ""
        first = self._log[0].fact
        assert isinstance(first, ev.Accepted)
        self._accepted = first
        self._frontier = Frontier(
            self.plan,
            run=self.run,
            clock=self._time,
            recorded=lambda path: True,
            observe=self._seen,
            test=first.test,
        )
        self._started = False

    def _time(self, place: str) -> float:
        recorded = self._values.get(f"{self._prefix}{place}@now")
        return self._now if recorded is None else msgspec.json.decode(recorded, type=float)

    def time_at(self, place: str) -> float:
        """Return the time that the expressions of a node saw."""
        return self._time(place)

    @property
    def run(self) -> dict[str, Any]:
        """Return what expressions see as `run`."""
        first = self._accepted
        paths = webhook_paths(self.plan.by_data, first.workspace, self._run_id, first.seed)
        return {"id": self._run_id, "workflow": first.workflow, "version": first.version, **paths}

    def _read(self) -> None:
        while self._at < len(self._log):
            at = self._at
            event = self._log[at]
            self._now, self._seq = event.at, event.seq
            self._cause = self._place(event.path).partition("@")[0]
            if isinstance(event.fact, ev.Retried) and at not in self._dropped:
                self._take_back(at)
                self._dropped.add(at)
                self._begin()
                self._at = 0
                continue
            if at not in self._dropped:
                self._apply(event)
                self._status(event)
            self._at += 1

    def _take_back(self, at: int) -> None:
        """A retry of the run at index `at`: drop the failure and the end of the run."""
        ends = (i for i in range(at - 1, -1, -1) if isinstance(self._log[i].fact, ev.Failed | ev.TimedOut))
        failed = next(ends, None)
        if failed is None:
            return
        fact = self._log[failed].fact
        assert isinstance(fact, ev.Failed | ev.TimedOut)
        self._dropped.add(failed)
        for i in range(failed):
            event = self._log[i]
            if event.path == fact.error.path and isinstance(
                event.fact, ev.StepFailed | ev.WaitEnded | ev.ChildEnded | ev.ChildStarted | ev.TimerFired
            ):
                self._dropped.add(i)

    def _status(self, event: Event) -> None:
        fact = event.fact
        if isinstance(fact, ev.ENDINGS):
            status = {
                ev.Completed: Status.COMPLETED,
                ev.Failed: Status.FAILED,
                ev.Cancelled: Status.CANCELLED,
            }
            status_now = str(status.get(type(fact), Status.TIMED_OUT))
        elif not self._started:
            return
        elif self._frontier.works or self._frontier.result is not None:
            status_now = str(Status.RUNNING)
        else:
            status_now = str(Status.SUSPENDED)
        if not self.history:
            self.history.append((str(Status.RUNNING), self._log[0].at))
        while len(self.history) > 1 and self.history[-1][1] == event.at:
            self.history.pop()
        if not self.history or self.history[-1][0] != status_now:
            self.history.append((status_now, event.at))

    # Facts

    def _apply(self, event: Event) -> None:
        fact = event.fact
        match fact:
            case ev.Claimed():
                self._worker = fact.worker
                self._start(event)
            case ev.Received() if not fact.rejected:
                self._messages[fact.key] = fact.payload
            case ev.StepStarted():
                entry = self.entries.get(self._place(event.path))
                if entry is not None:
                    entry.started_at = event.at
                    entry.attempts = max(entry.attempts, event.attempt)
            case ev.LoopAdvanced():
                self.progress[self._place(event.path).rsplit("[", 1)[0]] = (fact.done, fact.count)
            case ev.VariableSet():
                self._start(event)  # in a fork, this may come before the first claim
                self._frontier.set_variable(fact.name, PLAIN.decode(fact.value))
            case ev.CancelRequested() if self._started and self._frontier.result is None:
                self._frontier.cancel()
                self._take_commands()
            case ev.Cancelled() | ev.TimedOut() | ev.Failed():
                self._frontier.abandon()
            case _:
                self._answer(event)

    def _start(self, event: Event) -> None:
        if not self._started:
            self._started = True
            self._now = self._log[0].at
            self._frontier.begin(PLAIN.decode(self._accepted.input))
            self._now = event.at
            self._take_commands()

    def _place(self, path: str) -> str:
        return path.removeprefix(self._prefix)

    def _answer(self, event: Event) -> None:
        fact, place = event.fact, self._place(event.path)
        if place:  # in a fork, answers may precede the first claim
            self._start(event)
        command = self._commands.get(place.removesuffix(_LOOKED_UP))
        if command is None or command.done:
            if settles(fact):
                self.unasked.add(event.path)
            return
        if place.endswith(_LOOKED_UP):
            self._looked_up(command, fact)
            return
        entry = self.entries.get(command.node_run.path) if command.node_run is not None else None
        if entry is not None and isinstance(fact, ev.StepCompleted | ev.StepFailed):
            entry.attempts = max(entry.attempts, event.attempt)
        node = command.node_run.node.id if command.node_run is not None else ""
        match fact:
            case ev.StepCompleted():
                self._frontier.answer(command, fact.result)
            case ev.StepFailed(retry_in=None):
                problem = fact.error
                failure = Failure(
                    problem.code, problem.message, node, place, event.attempt, config=problem.permanent
                )
                self._frontier.fail(command, failure)
            case ev.NodeFailed():  # it could not be prepared
                problem = fact.error
                self._frontier.fail(command, Failure(problem.code, problem.message, node, place, config=True))
            case ev.NodeCompleted() if isinstance(_behaviour(command), StandInWork):
                result = {"output": PLAIN.decode(fact.output), "handle": (fact.handles or ["out"])[0]}
                self._frontier.answer(command, PLAIN.encode(result))
            case ev.TimerFired():
                self._frontier.answer(command, None)
            case ev.WaitEnded(outcome="answered"):
                message = PLAIN.decode(self._messages[fact.received])
                if command.kind is CommandKind.MAILBOX:
                    self._posted[id(message)] = (fact.received, message)
                self._frontier.answer(command, message)
            case ev.WaitEnded(outcome="timed_out"):
                self._frontier.fail(command, Failure(WAIT_TIMEOUT, "the wait timed out", node, place))
            case ev.ChildStarted(detached=True):
                self._frontier.answer(command, {"runId": fact.run})
            case ev.ChildEnded():
                self._child_ended(command, fact, node, place)
            case _:
                return
        if entry is not None and isinstance(fact, ev.StepCompleted | ev.StepFailed) and fact.worker:
            entry.worker = fact.worker
        self._take_commands()

    def _looked_up(self, command: Command, fact: ev.Fact) -> None:
        """The store was asked for a workflow; if it has none, the node that calls it failed."""
        if isinstance(fact, ev.StepCompleted) and bytes(fact.result) == b"null":
            assert command.node_run is not None
            self._frontier.fail(
                command, failure_of(command.node_run.node.behaviour.unknown(), command.node_run)
            )
            self._take_commands()

    def _child_ended(self, command: Command, fact: ev.ChildEnded, node: str, place: str) -> None:
        if fact.status == Status.COMPLETED:
            self._frontier.answer(command, PLAIN.decode(fact.result))
        else:
            problem = child_problem(fact)
            self._frontier.fail(command, Failure(called_code(problem.code), problem.message, node, place))

    def _take_commands(self) -> None:
        for action in self._frontier.take_actions():
            if isinstance(action, Command):
                self._commands[action.path] = action

    # Node runs

    def _seen(self, node_run: NodeRun) -> None:
        entry = self.entries.get(node_run.path)
        if entry is None:
            entry = self.entries[node_run.path] = self._entry(node_run)
            if self._describe is not None:
                self._describe(entry, node_run)
        entry.status = node_run.status
        if node_run.status in SETTLED:
            entry.ended_at = self._now
            entry.output = node_run.output
            entry.handles = list(node_run.handles)
            entry.worker = self._worker
            if node_run.error is not None:
                entry.error = node_run.error.as_context()
                entry.is_config_error = node_run.error.config
            if node_run.node.variable and node_run.status is NodeStatus.COMPLETED:
                entry.output = node_run.after.values.get(node_run.node.variable, node_run.output)
            if node_run.node.type == "loop" and node_run.loop is not None:
                self.progress[node_run.path] = (node_run.loop.done, node_run.loop.count)
            if node_run.event is not None:
                key, _ = self._posted[id(node_run.event)]
                self.delivered.append(
                    Delivered(self._seq, self._prefix + node_run.path, key, node_run.output)
                )

    def _entry(self, node_run: NodeRun) -> NodeEntry:
        scope, node = node_run.scope, node_run.node
        live = scope.live.get(node.index, ())
        join = scope.plan.nodes[node.join].id if node.join >= 0 else ""
        begun = node_run.status not in (NodeStatus.SKIPPED, NodeStatus.CANCELLED)
        return NodeEntry(
            order=node_run.number,
            path=node_run.path,
            node=node.id,
            type=node.type,
            status=node_run.status,
            predecessors=[scope.prefix + scope.plan.nodes[edge.source].id for edge in live]
            or _before(scope, self._cause),
            depth=scope.prefix.count("/"),
            branch=join,
            iteration=scope.loop["index"] if scope.loop is not None else None,
            inputs=dict(node_run.variables.values) if begun else None,
            pinned=self._accepted.test and node.data.is_pinned,
            queued_at=self._now if begun else None,
            started_at=self._now if begun else None,
        )
