"""Trace: what happened in a run, entry by entry, in one shape for all styles.

`TraceFold` tells it from the log alone, event by event. For a graph, `authoring.graphs.history` adds what
only its definition says: the order of decisions, the edges that were taken, titles and configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.compensation import COMPENSATE
from stepwell.domain.event_types import is_part_of_node, node_of
from stepwell.domain.events import Event, Problem
from stepwell.domain.problems import child_problem

StepInputs = Literal["on", "off"]
ErrorKind = Literal["configuration", "runtime"]
OPEN = frozenset({"queued", "running", "waiting", "retrying"})


@dataclass(slots=True, kw_only=True)
class TraceError:
    """Why an entry failed. `configuration`: its author must fix it; nothing was executed, or to no avail."""

    code: str
    message: str
    kind: ErrorKind = "runtime"
    hint: str = ""
    type: str = ""
    traceback: str = ""


@dataclass(slots=True, kw_only=True)
class TraceAttempt:
    """One execution. A short one has no event when it starts: then `started_at` is the commit before it."""

    number: int
    queued_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    worker: str = ""
    by: str = ""  # who retried the run, if that began it
    error: TraceError | None = None


@dataclass(slots=True, kw_only=True)
class TraceEntry:
    """One thing that a run did: a step, wait or child of a function, a transition or a node."""

    order: int  # 1, 2, 3 ... of the beginning
    path: str  # as in the events
    name: str
    kind: str  # step | wait | timer | child | transition | node
    type: str = ""  # of a node: its type; of a wait: signal, event, approval, trigger
    title: str = ""
    status: str = "running"  # queued | running | waiting | retrying | completed | failed | timed_out | ...
    predecessors: list[str] = field(default_factory=list)  # paths of what led to it
    depth: int = 0  # how many forks, containers and transitions are around it
    fork: str = ""  # path of the entry before the innermost fork around it
    branch: int | None = None  # which of that fork's branches it is in, from 0
    iteration: int | None = None  # of the innermost loop around it
    attempts: list[TraceAttempt] = field(default_factory=list)
    queued_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    worker: str = ""
    config: Any = None  # of a node: its data with the templates filled in; secrets stay references
    input: Any = None
    output: Any = None
    handles: list[str] = field(default_factory=list)  # of a node: the handles that it took
    details: Any = None  # what its code wants to show
    usage: dict[str, Any] | None = None  # what all its attempts used: input_tokens, output_tokens, cost
    error: TraceError | None = None
    by: list[str] = field(default_factory=list)  # who answered the wait, or skipped the step
    missing: list[str] = field(default_factory=list)  # of a waiting join: what has not arrived
    progress: list[int | None] | None = None  # of a loop: iterations done, and their number
    child: str = ""  # id of the run that it started
    compensates: str = ""  # path of the entry that it undoes
    compensation: str = ""  # how undoing it went: running, completed, failed
    pinned: bool = False


def error_of(problem: Problem, kind: ErrorKind = "runtime") -> TraceError:
    return TraceError(
        code=problem.code,
        message=problem.message,
        kind=kind,
        hint=problem.hint,
        type=problem.type,
        traceback=problem.traceback,
    )


@dataclass(slots=True)
class _Fork:
    """Branches that are under way: tasks, or the items of one `ctx.map`."""

    call: str  # path of the map; '' for tasks
    before: list[str]  # paths of what led to it
    first: int = 0  # number of the first branch: tasks of a scope are numbered through
    scopes: list[str] = field(default_factory=list)


class TraceFold:
    """The trace of a run, event by event. What it holds grows with the run; each event costs the same."""

    def __init__(self) -> None:
        self.entries: dict[str, TraceEntry] = {}
        self._open: dict[str, TraceEntry] = {}
        self._last: dict[str, str] = {}  # by scope: the path of its latest entry
        self._forks: dict[str, _Fork] = {}  # by scope: the one opened in it since its latest entry
        self._tasks: dict[str, int] = {}  # by scope: how many branches of earlier forks are numbered
        self._retry_at: dict[str, float] = {}
        self._again: dict[str, tuple[float, str]] = {}  # by path: when the run was retried, and by whom
        self._messages: dict[str, ev.Received] = {}
        self._deciders: dict[str, list[str]] = {}  # by path of the approval
        self._worker = ""
        self._now = self._before = 0.0  # the time of this commit, and of the one before
        self._failed = ""  # path of what ended the run

    def take(self, event: Event) -> None:
        fact = event.fact
        if event.at != self._now:
            self._before, self._now = self._now or event.at, event.at
        for path in fact.starts:
            self._begun(path)
        take = _TAKES.get(type(fact))
        if take is None:
            return
        if not is_part_of_node(event.path):
            take(self, event, fact)
        elif isinstance(fact, ev.UsageReported | ev.DetailsReported):  # of a turn: the node shows them
            take(self, event._replace(path=node_of(event.path)), fact)

    # Entries

    def _entry(self, path: str, kind: str, name: str = "") -> TraceEntry:
        entry = self.entries.get(path)
        if entry is None:
            scope, around, number = _place_of(path)
            if (visit := _VISIT.match(scope)) and visit[0] not in self.entries:
                self._entry(visit[0], "transition")
            entry = self.entries[path] = TraceEntry(
                order=len(self.entries) + 1,
                path=path,
                name=name or _name_of(path),
                kind=kind,
                depth=scope.count("/") + scope.count("~"),  # of an item, its path is its scope
                queued_at=self._before,
            )
            if path.startswith(COMPENSATE):
                self._compensates(entry)
            else:
                self._place(entry, scope, around, number)
        if entry.status in OPEN:
            self._open[path] = entry
        return entry

    def _place(self, entry: TraceEntry, scope: str, around: str, number: int | None) -> None:
        """Find what led to the entry: the one before it in its scope, or the branches that met before it."""
        if scope in self._last:
            first = self.entries[self._last[scope]]
            entry.fork, entry.branch = first.fork, first.branch
            entry.predecessors = self._met(scope) or [self._last[scope]]
        elif number is None:  # the first of the run, or of a transition
            entry.predecessors = self._met(scope) or [self._last[at] for at in (around,) if at in self._last]
        else:
            fork = self._forked(around, entry.path.rpartition("[")[0] if scope == entry.path else "")
            fork.scopes.append(scope)
            entry.predecessors = list(fork.before)
            entry.fork, entry.branch = "".join(fork.before[-1:]), number - fork.first
        self._last[scope] = entry.path

    def _forked(self, around: str, call: str) -> _Fork:
        """The fork of a branch that begins in that scope; another map there is over."""
        fork = self._forks.get(around)
        if fork is None or fork.call != call:
            before = self._met(around) or [self._last[at] for at in (around,) if at in self._last]
            fork = self._forks[around] = _Fork(call, before, 0 if call else self._tasks.get(around, 0))
        return fork

    def _met(self, scope: str) -> list[str]:
        """The last entries of the branches that were opened in this scope: they are over."""
        fork = self._forks.pop(scope, None)
        if fork is None:
            return []
        if not fork.call:
            self._tasks[scope] = max(_place_of(f"{branch}/")[2] or 0 for branch in fork.scopes) + 1
        return [self._last[branch] for branch in fork.scopes]

    def _compensates(self, entry: TraceEntry) -> None:
        entry.compensates = entry.path.removeprefix(COMPENSATE)
        undone = self.entries.get(entry.compensates)
        if undone is not None:
            entry.name, undone.compensation = undone.name, "running"

    def _begun(self, path: str) -> None:
        entry = self._entry(path, "node")
        entry.queued_at = entry.started_at = self._now

    def _attempt(self, entry: TraceEntry, number: int, *, waits: bool = False) -> TraceAttempt:
        number = max(number, 1)
        if not entry.attempts or entry.attempts[-1].number != number:
            attempt = TraceAttempt(number=number)
            if not entry.attempts:
                attempt.queued_at, attempt.started_at = entry.queued_at, entry.started_at or entry.queued_at
            elif entry.path in self._again:
                attempt.queued_at, attempt.by = self._again.pop(entry.path)
                attempt.started_at = max(attempt.queued_at, self._before)
            else:
                attempt.queued_at = entry.attempts[-1].ended_at
                attempt.started_at = self._retry_at.get(entry.path)
            if waits:
                attempt.started_at = None
            entry.attempts.append(attempt)
            if entry.started_at is None and not waits:
                entry.started_at = attempt.started_at
        return entry.attempts[-1]

    def _end(self, entry: TraceEntry, status: str, error: TraceError | None = None) -> None:
        entry.status, entry.ended_at, entry.error = status, self._now, error
        entry.worker = entry.worker or self._worker
        entry.started_at = entry.queued_at if entry.started_at is None else entry.started_at
        self._open.pop(entry.path, None)
        if entry.compensates and entry.compensates in self.entries:
            self.entries[entry.compensates].compensation = status

    # Facts

    def _claimed(self, event: Event, fact: ev.Claimed) -> None:
        self._worker = fact.worker
        self._before = fact.since or self._before  # what it begins, it begins from then on

    def _node_started(self, event: Event, fact: ev.NodeStarted) -> None:
        self._begun(event.path)

    def _received(self, event: Event, fact: ev.Received) -> None:
        if fact.rejected:
            message = self._messages.pop(fact.key, None)
            if message is not None and message.by in self._deciders.get(message.name, ()):
                self._deciders[message.name].remove(message.by)
            return
        self._messages[fact.key] = fact
        if fact.what == "decide" and fact.by:
            self._deciders.setdefault(fact.name, []).append(fact.by)

    def _scheduled(self, event: Event, fact: ev.StepScheduled) -> None:
        entry = self._entry(event.path, "step", fact.step)
        entry.status, entry.input = "queued", _arguments(fact.args)
        self._attempt(entry, event.attempt, waits=True).queued_at = event.at

    def _step_started(self, event: Event, fact: ev.StepStarted) -> None:
        entry = self._entry(event.path, "step")
        attempt = self._attempt(entry, event.attempt)
        attempt.started_at = attempt.started_at or event.at
        attempt.worker, entry.status = self._worker, "running"

    def _step_ended(self, event: Event, fact: ev.StepCompleted | ev.StepFailed) -> None:
        entry = self._entry(event.path, "step")
        if isinstance(fact, ev.StepCompleted) and fact.skipped:
            _, by = self._again.pop(event.path, (0.0, ""))
            entry.output, entry.by = _value(fact.result), [by] if by else []
            self._end(entry, "completed")
            return
        attempt = self._attempt(entry, event.attempt)
        attempt.ended_at, attempt.worker = event.at, fact.worker or self._worker
        if fact.since:  # by another worker
            attempt.started_at = min(max(fact.since, attempt.queued_at or 0.0), event.at)
            entry.started_at = entry.started_at or attempt.started_at
        entry.worker = attempt.worker
        if bytes(fact.args) != b"null":
            entry.input = _arguments(fact.args)
        if isinstance(fact, ev.StepCompleted):
            entry.output = _value(fact.result)
            self._end(entry, "completed")
            return
        attempt.error = error_of(fact.error)
        if fact.retry_in is None:
            self._end(entry, "failed", attempt.error)
        else:
            self._retry_at[event.path] = event.at + fact.retry_in
            entry.status, entry.error = "retrying", attempt.error

    def _details(self, event: Event, fact: ev.DetailsReported) -> None:
        self._entry(event.path, "step").details = _value(fact.details)

    def _usage(self, event: Event, fact: ev.UsageReported) -> None:
        entry = self._entry(event.path, "step")
        before = entry.usage or {"input_tokens": 0, "output_tokens": 0, "cost": 0.0}
        entry.usage = {name: value + getattr(fact, name) for name, value in before.items()}

    def _waits(self, event: Event, fact: ev.TimerSet | ev.WaitOpened) -> None:
        if isinstance(fact, ev.TimerSet):
            entry = self._entry(event.path, "timer")
        else:
            entry = self._entry(event.path, "wait", fact.name)
            entry.type, entry.title = fact.what, fact.title
        entry.status, entry.started_at = "waiting", event.at

    def _fired(self, event: Event, fact: ev.TimerFired) -> None:
        self._end(self._entry(event.path, "timer"), "completed")

    def _wait_ended(self, event: Event, fact: ev.WaitEnded) -> None:
        entry = self.entries.get(event.path)
        if entry is None and fact.received:  # the answer was there before the question
            what, _, name = _name_of(event.path).partition(":")
            entry = self._entry(event.path, "wait", name)
            entry.type, entry.started_at = what, event.at
        if entry is None or entry.status not in OPEN:
            return
        answer, deciders = self._messages.pop(fact.received, None), self._deciders.pop(event.path, [])
        if answer is not None:
            entry.output = _value(answer.payload)
            entry.by = deciders or [name for name in (answer.by,) if name]
        self._end(entry, _WAIT_ENDS[fact.outcome])

    def _child_started(self, event: Event, fact: ev.ChildStarted) -> None:
        entry = self._entry(event.path, "child", fact.workflow)
        entry.child, entry.started_at = fact.run, entry.started_at or event.at
        if fact.detached:
            entry.output = {"run": fact.run}
            self._end(entry, "completed")

    def _child_ended(self, event: Event, fact: ev.ChildEnded) -> None:
        entry = self._entry(event.path, "child")
        if fact.status == "completed":
            entry.output = _value(fact.result)
            self._end(entry, "completed")
        else:
            self._end(entry, "failed", error_of(child_problem(fact)))

    def _moved(self, event: Event, fact: ev.TransitionCompleted) -> None:
        entry = self._transition(event, fact.transition)
        entry.output = {"source": fact.source, "target": fact.target, "version": fact.version}
        attempt = self._attempt(entry, event.attempt)
        attempt.ended_at, attempt.worker = event.at, self._worker
        self._end(entry, "completed", None if fact.error is None else error_of(fact.error))

    def _stayed(self, event: Event, fact: ev.TransitionFailed) -> None:
        entry = self._transition(event, fact.transition)
        attempt = self._attempt(entry, event.attempt)
        attempt.ended_at, attempt.worker, attempt.error = event.at, self._worker, error_of(fact.error)
        if fact.retry_in is not None:
            self._retry_at[entry.path] = event.at + fact.retry_in
            entry.status, entry.error = "retrying", attempt.error
        elif not fact.target:  # otherwise TransitionCompleted follows
            self._end(entry, "failed", attempt.error)

    def _transition(self, event: Event, name: str) -> TraceEntry:
        path = event.path or f"0/{name}@{event.seq}"
        entry = self._entry(path, "transition", name)
        entry.kind, entry.name = "transition", name
        return entry

    def _node_ended(self, event: Event, fact: ev.NodeFact) -> None:
        entry = self._entry(event.path, "node")
        if entry.status not in OPEN:
            return
        match fact:
            case ev.NodeCompleted():
                entry.output, entry.handles, entry.pinned = _value(fact.output), fact.handles, fact.pinned
                self._end(entry, "completed")
            case ev.NodeFailed():
                self._end(entry, "failed", error_of(fact.error))
            case ev.NodeSkipped():
                self._end(entry, "skipped")
            case _:
                self._end(entry, "cancelled")

    def _loop(self, event: Event, fact: ev.LoopStarted | ev.LoopAdvanced) -> None:
        entry = self.entries.get(event.path.partition("[")[0] if "[" in event.path else event.path)
        if entry is not None:
            entry.progress = [0 if isinstance(fact, ev.LoopStarted) else fact.done, fact.count]

    def _over(self, event: Event, fact: ev.Fact) -> None:
        """The run ended: nothing goes on."""
        if isinstance(fact, ev.Failed | ev.TimedOut):
            self._failed = fact.error.path
        for entry in list(self._open.values()):
            self._end(entry, "cancelled")

    def _retried(self, event: Event, fact: ev.Retried) -> None:
        entry = self.entries.get(fact.path or self._failed)
        if entry is not None and not fact.undo:
            entry.status, entry.ended_at, entry.error = "running", None, None
            self._open[entry.path] = entry
            self._again[entry.path] = event.at, fact.by


_VISIT = re.compile(r"[^/]+/[^/]+@\d+")  # a machine's visit, in the path of what it did
_ITEM = re.compile(r"\[(\d+)\]$")
_WAIT_ENDS = {"answered": "completed", "timed_out": "timed_out", "withdrawn": "cancelled"}
_Take = Callable[[TraceFold, Event, Any], None]
_TAKES: dict[type[ev.Fact], _Take] = {
    ev.Claimed: TraceFold._claimed,
    ev.Received: TraceFold._received,
    ev.NodeStarted: TraceFold._node_started,
    ev.StepScheduled: TraceFold._scheduled,
    ev.StepStarted: TraceFold._step_started,
    ev.StepCompleted: TraceFold._step_ended,
    ev.StepFailed: TraceFold._step_ended,
    ev.DetailsReported: TraceFold._details,
    ev.UsageReported: TraceFold._usage,
    ev.TimerSet: TraceFold._waits,
    ev.WaitOpened: TraceFold._waits,
    ev.TimerFired: TraceFold._fired,
    ev.WaitEnded: TraceFold._wait_ended,
    ev.ChildStarted: TraceFold._child_started,
    ev.ChildEnded: TraceFold._child_ended,
    ev.TransitionCompleted: TraceFold._moved,
    ev.TransitionFailed: TraceFold._stayed,
    ev.NodeCompleted: TraceFold._node_ended,
    ev.NodeFailed: TraceFold._node_ended,
    ev.NodeSkipped: TraceFold._node_ended,
    ev.NodeCancelled: TraceFold._node_ended,
    ev.LoopStarted: TraceFold._loop,
    ev.LoopAdvanced: TraceFold._loop,
    ev.Retried: TraceFold._retried,
    **dict.fromkeys(ev.ENDINGS, TraceFold._over),
}


def _value(raw: Raw) -> Any:
    return msgspec.json.decode(raw)


def _arguments(raw: Raw) -> Any:
    """A call's arguments: by name, or in a list."""
    call = _value(raw)
    if not isinstance(call, dict):
        return call
    args, kwargs = call.get("args", []), call.get("kwargs", {})
    return {"args": args, **kwargs} if args and kwargs else args or kwargs


def _place_of(path: str) -> tuple[str, str, int | None]:
    """The scope of a path, the scope around it, and the number of a branch.

    `0~2/pay#1` is in the task `0~2` of `0`, which is number 1; `0/approve@3/pay#1` in the visit
    `0/approve@3`; `0/pay#1[4]` is item 4 of a map in `0`, and a scope of its own.
    """
    scope = path.removeprefix(COMPENSATE).rpartition("/")[0]
    if (item := _ITEM.search(path)) is not None:
        return path, scope, int(item[1])
    head, slash, last = scope.rpartition("/")
    stem, tilde, number = last.rpartition("~")
    if not tilde:
        return scope, head, None
    return scope, head + slash + stem, int(number) - 1 if number.isdigit() else None


def _name_of(path: str) -> str:
    return path.rpartition("/")[2].partition("#")[0].partition("@")[0]
