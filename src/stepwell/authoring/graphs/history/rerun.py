"""Rerun: which part of an old run's log a new run keeps, by causality.

It drops whatever depends on a change: a node that runs again, a node whose output was edited, the input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from stepwell.authoring.graphs.build.plan import GraphPlan, NodePlan, ScopePlan
from stepwell.authoring.graphs.history.dependents import Dependents
from stepwell.authoring.graphs.history.trace import GraphTrace, NodeEntry, trace
from stepwell.authoring.graphs.nodes.join import Merge
from stepwell.authoring.graphs.nodes.node_type import Role
from stepwell.authoring.graphs.nodes.registry import NodeRegistry
from stepwell.authoring.graphs.nodes.steps import RESULTS, NodeResult
from stepwell.authoring.graphs.run.state import ROOT, NodeStatus
from stepwell.domain import events as ev
from stepwell.domain.codec import PLAIN
from stepwell.domain.events import Event
from stepwell.domain.fork.fork import ForkIdentity, fork_run
from stepwell.domain.fork.prefix import Edits, settles
from stepwell.domain.fork.run_copy import RunCopy
from stepwell.domain.schema import Schema
from stepwell.errors import InvalidInput

_NOTHING: Mapping[str, int] = {}


def rerun_edits(plan: GraphPlan, old: GraphTrace, log: Sequence[Event], node: str) -> Edits:
    """Run a node again, and everything that depends on it, including nodes it had beaten in a race."""
    dependents = Dependents(old)
    entry = dependents.entry(node)
    again = dependents.of(entry)
    dropped = _of_nodes(log, again, _around(log, [entry.path]))
    more = _overtaking(plan, old, log, again, dropped) | _of_nodes(log, _fatal(plan, old, log, entry))
    return Edits(dropped=dropped | more, delivered=old.delivered)


def _overtaking(
    plan: GraphPlan, old: GraphTrace, log: Sequence[Event], again: set[str], dropped: frozenset[str]
) -> frozenset[str]:
    """Return the answers that arrived after the dropped ones and would now come first.

    They would win the race, or fail the join or the run, before the node has run again.
    """
    entries = old.by_path()
    races = {racer for path in again for racer in _racers(plan, path)}
    first = next((e.seq for e in log if e.path in dropped and _owner(e.path) and settles(e.fact)), None)
    owners = set()
    for event in log if first is not None else ():
        owner = _owner(event.path)
        if event.seq < (first or 0) or event.path in dropped or not owner or not settles(event.fact):
            continue
        entry = entries.get(owner)
        lost = entry is not None and _is_lost(entry)
        if lost or not races.isdisjoint(_places(owner)):
            owners.add(owner)
    return _of_nodes(log, owners) if owners else frozenset()


def _is_lost(entry: NodeEntry) -> bool:
    return entry.status is NodeStatus.FAILED and "error" not in entry.handles


def _fatal(plan: GraphPlan, old: GraphTrace, log: Sequence[Event], entry: NodeEntry) -> set[str]:
    """Nodes whose answer, with no other answer in between, led to the failure of a node.

    Such a failure has no answer of its own in the log: it happens again as soon as its causes are there,
    and would cancel the node that is to run again. The causes of that node itself are kept.
    """
    entries, answered = old.by_path(), {_owner(event.path) for event in log if settles(event.fact)}
    causes: set[str] = set()
    waiting = [
        e
        for e in entries.values()
        if _is_lost(e) and e.path not in answered and _fails_by_itself(plan, entries, e)
    ]
    seen = {entry.path for entry in waiting}
    while waiting:
        for path in waiting.pop().predecessors:
            if path in answered:
                causes.add(path)
            elif path in entries and path not in seen:
                seen.add(path)
                waiting.append(entries[path])
    return causes - _before(entries, entry)


def _before(entries: Mapping[str, NodeEntry], entry: NodeEntry) -> set[str]:
    paths: set[str] = set()
    waiting = [entry]
    while waiting:
        new = [path for path in waiting.pop().predecessors if path not in paths]
        paths.update(new)
        waiting += [entries[path] for path in new if path in entries]
    return paths


def _fails_by_itself(plan: GraphPlan, entries: Mapping[str, NodeEntry], entry: NodeEntry) -> bool:
    """Whether a node failed at once, and its scope with it: not because of a branch or a node in its
    body, and not before a join that continues without the branch or waits for the others first."""
    scope = next(scope for scope in plan.scopes() if entry.node in scope.by_id)
    node = scope.by_id[entry.node]
    prefix = entry.path.removesuffix(entry.node)
    before = [entries.get(prefix + scope.nodes[edge.source].id) for edge in node.ins]
    ended_badly = (NodeStatus.FAILED, NodeStatus.CANCELLED)
    if node.role is Role.JOIN and any(one is not None and one.status in ended_badly for one in before):
        return False
    if node.role.has_body and any(path.startswith(_inside(entry.path)) for path in entries):
        return False
    return node.join < 0 or scope.nodes[node.join].behaviour.errors == "fail-fast"


def _inside(path: str) -> tuple[str, ...]:
    """The prefixes of paths in a container's body."""
    return (f"{path}/", f"{path}[", f"{path}#")


class _Racer(NamedTuple):
    """A node that leads to a join whose result depends on the order of arrival."""

    prefix: str  # of the scope of both
    node: str


def _places(path: str) -> Iterator[_Racer]:
    """The node and the containers around it, each with the prefix of its scope."""
    prefix = ""
    for name in path.split("/"):
        yield _Racer(prefix, _PART.sub(r"\1", name))
        prefix += f"{name}/"


def _racers(plan: GraphPlan, path: str) -> Iterator[_Racer]:
    """All racers of the races that a node may take part in: it leads there, even if it never arrived."""
    prefix, _, node = path.rpartition("/")
    prefix += "/" if prefix else ""
    scope = next(scope for scope in plan.scopes() if node in scope.by_id)
    after = _reached(scope, scope.by_id[node].index, lambda one: [edge.target for edge in one.outs])
    for index in after:
        join = scope.nodes[index]
        if join.role is Role.JOIN and _is_race(join.behaviour):
            before = _reached(scope, index, lambda one: [edge.source for edge in one.ins])
            yield from (_Racer(prefix, scope.nodes[at].id) for at in before)


def _is_race(join: Merge) -> bool:
    by_arrival = join.strategy in ("first-write", "last-write")
    return join.mode != "all" or by_arrival or join.timeout is not None


def _reached(scope: ScopePlan, index: int, next_to: Callable[[NodePlan], list[int]]) -> set[int]:
    indexes, waiting = {index}, [index]
    while waiting:
        new = [at for at in next_to(scope.nodes[waiting.pop()]) if at not in indexes]
        indexes.update(new)
        waiting.extend(new)
    return indexes


def output_edits(
    old: GraphTrace, log: Sequence[Event], registry: NodeRegistry, outputs: Mapping[str, Any]
) -> Edits:
    """Replace outputs, given as the log stores them, and run everything that depends on them again.

    A node is named by its id or path. Its output may be a `NodeResult` with another handle.
    """
    dependents = Dependents(old)
    changed: dict[str, bytes] = {}
    again: set[str] = set()
    entries = [(dependents.entry(name.removeprefix(ROOT)), value) for name, value in outputs.items()]
    for entry, value in sorted(entries, key=lambda one: one[0].order):
        if entry.path not in again:  # otherwise its dependents are in there already
            again |= dependents.of(entry)
        changed[entry.path] = _encoded(old, log, entry, registry, value)
    dropped = _of_nodes(log, again - changed.keys(), _around(log, changed))
    edits = {ROOT + path: data for path, data in changed.items()}
    return Edits(outputs=edits, dropped=dropped, delivered=old.delivered)


def replayable_edits(plan: GraphPlan, old: RunCopy, origin: ev.Origin, edits: Edits) -> Edits:
    """The same edits, without the answers that the new run would never ask for.

    Edges do not show every consequence of a node: its failure may have failed a join, its late arrival
    lost a race. So replay the graph over the rest of the log and drop the answers that it has no command
    for, until every answer fits.
    """
    identity = ForkIdentity(old.id, "", "", 0.0)
    log = [ev.read(row) for row in old.log]
    while True:
        rest = [ev.read(row) for row in fork_run(old, origin, edits, identity).log]
        unasked = trace(plan, old.id, rest).unasked
        if not unasked:
            return edits
        lost = sorted(unasked & edits.outputs.keys())
        if lost:
            raise InvalidInput(
                f"{lost[0].removeprefix(ROOT)} is no longer reached after the other edits",
                hint="leave its output out; the node runs when the new run reaches it",
            )
        nodes = {_owner(path) for path in unasked}
        edits = replace(edits, dropped=edits.dropped | unasked | _of_nodes(log, nodes))


def _of_nodes(
    log: Sequence[Event], nodes: Iterable[str], since: Mapping[str, int] = _NOTHING
) -> frozenset[str]:
    """The paths of these nodes and of the mailbox, whose events are recorded with their waits.

    `since` has the containers around the nodes that run again: their earlier events are kept, such as
    the delay after an earlier attempt.
    """
    wanted = {*nodes, ""}
    paths = set()
    for event in log:
        owner = _owner(event.path)
        if owner not in wanted:
            part = _PART.fullmatch(owner)  # of an iteration, or an attempt
            owner = "?" if part is None else part[1]
        if event.path and owner in wanted and event.seq >= since.get(owner, 0):
            paths.add(event.path)
    return frozenset(paths)


def _around(log: Sequence[Event], paths: Iterable[str]) -> dict[str, int]:
    """The containers around these nodes, each with the sequence number of the first change inside it."""
    begun: dict[str, int] = {}
    for event in log:
        begun.setdefault(_owner(event.path), event.seq)
    containers: dict[str, int] = {}
    for path in paths:
        first = begun.get(path, 0)
        scope = path.rpartition("/")[0]
        while scope:
            part = _PART.fullmatch(scope)
            name = scope if part is None else part[1]
            containers[name] = min(first, containers.get(name, first))
            scope = scope.rpartition("/")[0]
    return containers


_PART = re.compile(r"(.*)[\[#](\d+)\]?")  # lines[3], again#2


def _owner(path: str) -> str:
    return path.removeprefix(ROOT).partition("@")[0]


def _encoded(
    old: GraphTrace, log: Sequence[Event], entry: NodeEntry, registry: NodeRegistry, value: Any
) -> bytes:
    kind = registry.get(entry.type)
    if kind is not None and kind.role is Role.WAIT:
        return _answer(old, log, entry, value)
    if kind is None or kind.role not in (Role.WORK, Role.CHILD):
        raise InvalidInput(
            f"{entry.path} is of type {entry.type}: it has no recorded result to edit",
            hint="edit the output of a node before it, or rerun from it",
        )
    if entry.type in ("call", "workflow"):
        return PLAIN.encode(value)
    return RESULTS.encode(value if isinstance(value, NodeResult) else NodeResult(value))


def _answer(old: GraphTrace, log: Sequence[Event], entry: NodeEntry, value: Any) -> bytes:
    """Return the event or decision that replaces the recorded answer of a wait, or its timeout."""
    path = ROOT + entry.path
    opened = next((e.fact for e in log if e.path == path and isinstance(e.fact, ev.WaitOpened)), None)
    if opened is None and not any(one.path == path for one in old.delivered):
        raise InvalidInput(
            f"{entry.path} waits for a time: it has no answer to edit",
            hint="edit the output of a node before or after it",
        )
    if isinstance(value, NodeResult):
        raise InvalidInput(
            f"{entry.path} is of type {entry.type}: its answer decides which handle it takes",
            hint="give the answer alone, such as 'approved' or the event's data",
        )
    if opened is not None and opened.what == "approval":
        Schema(msgspec.json.decode(opened.form)).check(value, question=path)
    return PLAIN.encode(value)
