"""Cutting: what of an old run's log a new run keeps, by causality.

Everything is kept but what depends on what is other than it was: a node that is done again, a node whose
output was edited, the input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from stepwell.authoring.graphs.build.plan import NodePlan, Plan, ScopePlan
from stepwell.authoring.graphs.history.dependents import Descent
from stepwell.authoring.graphs.history.trace import Trace, TraceEntry, trace
from stepwell.authoring.graphs.nodes.join import Merge
from stepwell.authoring.graphs.nodes.node_type import Role
from stepwell.authoring.graphs.nodes.registry import NodeRegistry
from stepwell.authoring.graphs.nodes.steps import RESULTS, NodeResult
from stepwell.authoring.graphs.run.state import ROOT, StepStatus
from stepwell.domain import events as ev
from stepwell.domain.codec import PLAIN
from stepwell.domain.events import Event
from stepwell.domain.fork.fork import ForkIdentity, fork_run
from stepwell.domain.fork.prefix import Edits, settles
from stepwell.domain.fork.run_copy import RunCopy
from stepwell.domain.schema import Schema
from stepwell.errors import InvalidInput

_NOTHING: Mapping[str, int] = {}


def done_again(plan: Plan, told: Trace, log: Sequence[Event], node: str) -> Edits:
    """A node is done again, and all that follows from it; and whom it raced with and came before."""
    descent = Descent(told)
    entry = descent.entry(node)
    again = descent.of(entry)
    dropped = _of_nodes(log, again, _around(log, [entry.path]))
    more = _behind(plan, told, log, again, dropped) | _of_nodes(log, _fatal(plan, told, log, entry))
    return Edits(dropped=dropped | more, delivered=told.delivered)


def _behind(
    plan: Plan, told: Trace, log: Sequence[Event], again: set[str], dropped: frozenset[str]
) -> frozenset[str]:
    """Answers that came later than those that are dropped, and would now come first.

    They would win the race, or fail the join or the run, before the node is done at all.
    """
    known = told.by_path()
    races = {racer for path in again for racer in _racers(plan, path)}
    first = next((e.seq for e in log if e.path in dropped and _owner(e.path) and settles(e.fact)), None)
    found = set()
    for event in log if first is not None else ():
        owner = _owner(event.path)
        if event.seq < (first or 0) or event.path in dropped or not owner or not settles(event.fact):
            continue
        entry = known.get(owner)
        lost = entry is not None and _is_lost(entry)
        if lost or not races.isdisjoint(_places(owner)):
            found.add(owner)
    return _of_nodes(log, found) if found else frozenset()


def _is_lost(entry: TraceEntry) -> bool:
    return entry.status is StepStatus.FAILED and "error" not in entry.handles


def _fatal(plan: Plan, told: Trace, log: Sequence[Event], entry: TraceEntry) -> set[str]:
    """Nodes with an answer behind which, with no other answer in between, a node failed.

    Such a failure has no answer of its own in the log: it happens again as soon as what leads to it is
    there, and would cancel the node that is to be done. What that node itself follows from is kept.
    """
    known, answered = told.by_path(), {_owner(event.path) for event in log if settles(event.fact)}
    found: set[str] = set()
    waiting = [
        e
        for e in known.values()
        if _is_lost(e) and e.path not in answered and _fails_by_itself(plan, known, e)
    ]
    seen = {entry.path for entry in waiting}
    while waiting:
        for path in waiting.pop().predecessors:
            if path in answered:
                found.add(path)
            elif path in known and path not in seen:
                seen.add(path)
                waiting.append(known[path])
    return found - _before(known, entry)


def _before(known: Mapping[str, TraceEntry], entry: TraceEntry) -> set[str]:
    found: set[str] = set()
    waiting = [entry]
    while waiting:
        new = [path for path in waiting.pop().predecessors if path not in found]
        found.update(new)
        waiting += [known[path] for path in new if path in known]
    return found


def _fails_by_itself(plan: Plan, known: Mapping[str, TraceEntry], entry: TraceEntry) -> bool:
    """It failed at once, and what is around it with it: not because of a branch or of a node in its body,
    and not where a join goes on without the branch, or waits for the others first."""
    scope = next(scope for scope in plan.scopes() if entry.node in scope.by_id)
    node = scope.by_id[entry.node]
    prefix = entry.path.removesuffix(entry.node)
    before = [known.get(prefix + scope.nodes[edge.source].id) for edge in node.ins]
    ended_badly = (StepStatus.FAILED, StepStatus.CANCELLED)
    if node.role is Role.JOIN and any(one is not None and one.status in ended_badly for one in before):
        return False
    if node.role is Role.CONTAINER and any(path.startswith(_inside(entry.path)) for path in known):
        return False
    return node.join < 0 or scope.nodes[node.join].behaviour.errors == "fail-fast"


def _inside(path: str) -> tuple[str, ...]:
    """How the paths of a container's body begin."""
    return (f"{path}/", f"{path}[", f"{path}#")


class _Racer(NamedTuple):
    """A node that leads to a join for which it counts who comes first."""

    prefix: str  # of the scope that both are in
    node: str


def _places(path: str) -> Iterator[_Racer]:
    """The step and the containers around it, each as a node of its scope."""
    prefix = ""
    for name in path.split("/"):
        yield _Racer(prefix, _PART.sub(r"\1", name))
        prefix += f"{name}/"


def _racers(plan: Plan, path: str) -> Iterator[_Racer]:
    """Those in the races that a step may have a part in: it leads there, whether it came that far or not."""
    prefix, _, node = path.rpartition("/")
    prefix += "/" if prefix else ""
    scope = next(scope for scope in plan.scopes() if node in scope.by_id)
    behind = _reached(scope, scope.by_id[node].index, lambda one: [edge.target for edge in one.outs])
    for index in behind:
        join = scope.nodes[index]
        if join.role is Role.JOIN and _counts_time(join.behaviour):
            before = _reached(scope, index, lambda one: [edge.source for edge in one.ins])
            yield from (_Racer(prefix, scope.nodes[at].id) for at in before)


def _counts_time(join: Merge) -> bool:
    by_arrival = join.strategy in ("first-write", "last-write")
    return join.mode != "all" or by_arrival or join.timeout is not None


def _reached(scope: ScopePlan, index: int, next_to: Callable[[NodePlan], list[int]]) -> set[int]:
    found, waiting = {index}, [index]
    while waiting:
        new = [at for at in next_to(scope.nodes[waiting.pop()]) if at not in found]
        found.update(new)
        waiting.extend(new)
    return found


def edited(told: Trace, log: Sequence[Event], registry: NodeRegistry, outputs: Mapping[str, Any]) -> Edits:
    """What depends on the edited outputs is done again. They are written as the log has them.

    A node is named by its id or path; its output may be a `NodeResult` with another handle.
    """
    descent = Descent(told)
    changed: dict[str, bytes] = {}
    again: set[str] = set()
    entries = [(descent.entry(name.removeprefix(ROOT)), value) for name, value in outputs.items()]
    for entry, value in sorted(entries, key=lambda one: one[0].order):
        if entry.path not in again:  # else all that depends on it is known already
            again |= descent.of(entry)
        changed[entry.path] = _written(told, log, entry, registry, value)
    dropped = _of_nodes(log, again - changed.keys(), _around(log, changed))
    found = {ROOT + path: data for path, data in changed.items()}
    return Edits(outputs=found, dropped=dropped, delivered=told.delivered)


def fitting(plan: Plan, old: RunCopy, origin: ev.Origin, edits: Edits) -> Edits:
    """The same edits, without the answers that nobody asks for any more.

    Edges do not tell all that follows from a node: its failure may have failed a join, its late arrival
    lost a race. So the graph is given what is kept, and what it has no question for is left out, until all
    that is left fits.
    """
    identity = ForkIdentity(old.id, "", "", 0.0)
    log = [ev.read(row) for row in old.log]
    while True:
        kept = [ev.read(row) for row in fork_run(old, origin, edits, identity).log]
        unasked = trace(plan, old.id, kept).unasked
        if not unasked:
            return edits
        lost = sorted(unasked & edits.outputs.keys())
        if lost:
            raise InvalidInput(
                f"{lost[0].removeprefix(ROOT)} is not reached any more after the other edits",
                hint="leave its output out; it is asked for when the new run comes there",
            )
        nodes = {_owner(path) for path in unasked}
        edits = replace(edits, dropped=edits.dropped | unasked | _of_nodes(log, nodes))


def _of_nodes(
    log: Sequence[Event], nodes: Iterable[str], since: Mapping[str, int] = _NOTHING
) -> frozenset[str]:
    """The paths of these nodes, and of the mailbox: what it gave is told with the waits that got it.

    `since` has the containers around what is done again: of theirs, what happened before that is kept, such
    as the delay behind an earlier attempt.
    """
    wanted = {*nodes, ""}
    found = set()
    for event in log:
        owner = _owner(event.path)
        if owner not in wanted:
            part = _PART.fullmatch(owner)  # what belongs to an iteration, or an attempt
            owner = "?" if part is None else part[1]
        if event.path and owner in wanted and event.seq >= since.get(owner, 0):
            found.add(event.path)
    return frozenset(found)


def _around(log: Sequence[Event], paths: Iterable[str]) -> dict[str, int]:
    """The containers around these steps, each with the first event of what is other than it was in it."""
    begun: dict[str, int] = {}
    for event in log:
        begun.setdefault(_owner(event.path), event.seq)
    found: dict[str, int] = {}
    for path in paths:
        first = begun.get(path, 0)
        scope = path.rpartition("/")[0]
        while scope:
            part = _PART.fullmatch(scope)
            name = scope if part is None else part[1]
            found[name] = min(first, found.get(name, first))
            scope = scope.rpartition("/")[0]
    return found


_PART = re.compile(r"(.*)[\[#](\d+)\]?")  # lines[3], again#2


def _owner(path: str) -> str:
    return path.removeprefix(ROOT).partition("@")[0]


def _written(
    told: Trace, log: Sequence[Event], entry: TraceEntry, registry: NodeRegistry, value: Any
) -> bytes:
    kind = registry.get(entry.type)
    if kind is not None and kind.role is Role.WAIT:
        return _answer(told, log, entry, value)
    if kind is None or kind.role not in (Role.WORK, Role.CHILD):
        raise InvalidInput(
            f"{entry.path} is a {entry.type}: it has no result in the log that could be edited",
            hint="edit what the nodes before it gave, or rerun from it",
        )
    if entry.type in ("call", "workflow"):
        return PLAIN.encode(value)
    return RESULTS.encode(value if isinstance(value, NodeResult) else NodeResult(value))


def _answer(told: Trace, log: Sequence[Event], entry: TraceEntry, value: Any) -> bytes:
    """The event or decision that a wait is to get in place of what it got, or did not get in time."""
    path = ROOT + entry.path
    opened = next((e.fact for e in log if e.path == path and isinstance(e.fact, ev.WaitOpened)), None)
    if opened is None and not any(one.path == path for one in told.delivered):
        raise InvalidInput(
            f"{entry.path} waits for time: nothing answers it that could be edited",
            hint="edit what the nodes before or behind it gave",
        )
    if isinstance(value, NodeResult):
        raise InvalidInput(
            f"{entry.path} is a {entry.type}: how it was answered says where it goes on",
            hint="give the answer alone, such as 'approved' or the event's data",
        )
    if opened is not None and opened.what == "approval":
        Schema(msgspec.json.decode(opened.form)).check(value, question=path)
    return PLAIN.encode(value)
