"""The trace of a graph run for readers: from its log and its stored graph, without any code of its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from stepwell.authoring.graphs.build.plan import EdgePlan, NodePlan, ScopePlan
from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.authoring.graphs.history.node_config import NodeConfigs
from stepwell.authoring.graphs.history.trace import GraphReplay, NodeEntry
from stepwell.authoring.graphs.nodes.control import SetData
from stepwell.authoring.graphs.nodes.stand_in import ReadingRegistry
from stepwell.authoring.graphs.run.state import ROOT, NodeRun, NodeStatus, ScopeRun
from stepwell.domain.events import Event
from stepwell.domain.trace import TraceAttempt, TraceEntry, TraceError, TraceFold

_READ = re.compile(r"\bctx\.([A-Za-z_]\w*)")  # names in expressions and templates
_READER = PlanBuilder(ReadingRegistry(), stored=True)


class GraphTraceFold:
    """The trace of a graph run, commit by commit."""

    def __init__(self, run_id: str, graph: bytes) -> None:
        plan = _READER.build(msgspec.json.decode(graph))
        self._facts = TraceFold()
        self._configs = NodeConfigs()
        self._replay = GraphReplay(plan, run_id, self._describe)

    def feed(self, events: Iterable[Event]) -> None:
        """Take in the events of one or more whole commits."""
        events = list(events)
        for event in events:
            self._facts.take(event)
        self._replay.feed(events)

    # Entries

    def _describe(self, entry: NodeEntry, node_run: NodeRun) -> None:
        node, scope = node_run.node, node_run.scope
        entry.title = node.data.title or ""
        entry.forks = [
            (ROOT + scope.prefix + fork.id, branch) for fork, branch in _forks_around(scope.plan, node)
        ]
        if entry.queued_at is None:
            return  # the run never began
        key = f"{self._replay.run['id']}/{ROOT}{node_run.path}"
        seen: dict[str, Any] = {
            "ctx": node_run.variables.values,
            "run": self._replay.run,
            "step": {"id": node.id, "path": node_run.path, "key": key},
        }
        if scope.loop is not None:
            seen["loop"] = scope.loop
        now = self._replay.time_at(node_run.path) if node.uses_time else None
        entry.config = self._configs.resolved(node, seen, now)

    def entries(self) -> list[TraceEntry]:
        """Return what has begun or was skipped, in the order of decisions; then the joins that wait."""
        nodes = sorted(self._replay.entries.values(), key=lambda one: one.order)
        entries = [self._entry(one) for one in nodes]
        for scope in self._replay.frontier.open_scopes():
            for index in scope.plan.joins:
                if scope.node_runs[index] is None and (index in scope.live or index in scope.errors):
                    entries.append(_waiting_join(scope, index, len(entries) + 1))
        return entries

    def _entry(self, one: NodeEntry) -> TraceEntry:
        path = ROOT + one.path
        recorded = self._facts.entries.get(path)
        begun = one.queued_at is not None
        entry = TraceEntry(
            order=one.order,
            path=path,
            name=one.node,
            kind="node",
            type=one.type,
            title=one.title,
            status=str(one.status),
            predecessors=[ROOT + before for before in one.predecessors],
            depth=one.depth + len(one.forks),
            iteration=one.iteration,
            queued_at=one.queued_at,
            started_at=one.started_at,
            ended_at=one.ended_at,
            worker=one.worker,
            config=one.config,
            input=one.inputs,
            output=one.output,
            handles=list(one.handles),
            pinned=one.pinned,
        )
        if one.forks:
            entry.fork, entry.branch = one.forks[0]
        if recorded is not None:
            if one.status is NodeStatus.RUNNING and recorded.status in ("queued", "retrying"):
                entry.status = recorded.status
            entry.attempts, entry.details, entry.child = recorded.attempts, recorded.details, recorded.child
            entry.usage, entry.by = recorded.usage, list(recorded.by)
            entry.compensation, entry.progress = recorded.compensation, recorded.progress
            entry.title = entry.title or recorded.title
        if not entry.attempts and begun:
            entry.attempts = [
                TraceAttempt(
                    number=1,
                    queued_at=one.queued_at,
                    started_at=one.started_at,
                    ended_at=one.ended_at,
                    worker=one.worker,
                )
            ]
        if one.path in self._replay.progress:
            entry.progress = list(self._replay.progress[one.path])
        entry.error = _error(one, recorded)
        return entry

    # The state of the run

    def variables(self) -> dict[str, Any]:
        """Return the variables after everything that has settled. A later write wins."""
        root = self._replay.frontier.root
        settled = [run for run in root.node_runs if run is not None] if root is not None else []
        values = dict(root.base.values) if root is not None else {}  # includes values that people have set
        for run in sorted((run for run in settled if run.status is NodeStatus.COMPLETED), key=_number):
            before = run.variables.values
            values |= {name: value for name, value in run.after.values.items() if name not in before}
            values |= {
                name: value
                for name, value in run.after.values.items()
                if name in before and value is not before[name]
            }
        values.pop("input", None)
        return values

    def names(self) -> set[str]:
        """Return the variables that the graph reads or writes, and those of the run."""
        plan = self._replay.plan
        names = {*self.variables(), *_READ.findall(msgspec.json.encode(plan.definition.as_dict()).decode())}
        for node in plan.nodes():
            names |= {node.variable or "", *(node.data.values if isinstance(node.data, SetData) else ())}
        return names - {""}

    def outputs(self) -> dict[str, Any]:
        """Return the outputs of completed nodes by their place in the graph: `pay`, `lines[3]/pay`."""
        done = (one for one in self._replay.entries.values() if one.status is NodeStatus.COMPLETED)
        return {one.path: one.output for one in done}


def _number(run: NodeRun) -> int:
    return run.number


def _error(one: NodeEntry, recorded: TraceEntry | None) -> TraceError | None:
    if one.error is None:
        return None
    error = TraceError(
        code=one.error["code"],
        message=one.error["message"],
        kind="configuration" if one.is_config_error else "runtime",
    )
    if recorded is not None and recorded.error is not None:
        error.hint, error.type, error.traceback = (
            recorded.error.hint,
            recorded.error.type,
            recorded.error.traceback,
        )
    return error


def _waiting_join(scope: ScopeRun, index: int, order: int) -> TraceEntry:
    """Return a join that some branches have reached and others have not."""
    join = scope.plan.nodes[index]
    prefix = ROOT + scope.prefix

    def place(edge: EdgePlan) -> str:
        return prefix + scope.plan.nodes[edge.source].id

    arrived = [place(edge) for edge in scope.live.get(index, ())]
    settled = {place(edge) for edge in join.ins if _is_settled(scope, edge.source)}
    forks = [(prefix + fork.id, branch) for fork, branch in _forks_around(scope.plan, join)]
    fork, branch = forks[0] if forks else ("", None)
    return TraceEntry(
        order=order,
        path=prefix + join.id,
        name=join.id,
        kind="node",
        type=join.type,
        title=join.data.title or "",
        status="waiting",
        predecessors=arrived,
        depth=scope.prefix.count("/") + len(forks),
        fork=fork,
        branch=branch,
        iteration=scope.loop["index"] if scope.loop is not None else None,
        missing=[place(edge) for edge in join.ins if place(edge) not in settled],
    )


def _is_settled(scope: ScopeRun, index: int) -> bool:
    run = scope.node_runs[index]
    return run is not None and run.status not in (NodeStatus.RUNNING, NodeStatus.WAITING)


def _forks_around(scope: ScopePlan, node: NodePlan) -> Iterator[tuple[NodePlan, int]]:
    """Return the forks whose branches contain a node, innermost first, with the number of the branch.

    Walks up the dominators: a node that can only be reached through one edge of a fork is in that branch.
    """
    at = node
    while at.idom >= 0:
        above = scope.nodes[at.idom]
        heads = [edge for edge in at.ins if edge.source == above.index]
        if heads and len(heads) == len(at.ins):
            beside = [edge for edge in above.outs if edge.handle == heads[0].handle]
            if len(beside) > 1:
                yield above, beside.index(heads[0])
        at = above
