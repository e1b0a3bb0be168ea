"""JoinResult: what a `merge` node gives once `join_rules` has decided. A pure function of its arrivals.

The frontier carries the result out: it settles the join, and cancels the nodes that lead only to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stepwell.authoring.graphs.errors import NodeError
from stepwell.authoring.graphs.nodes.join import Merge
from stepwell.authoring.graphs.nodes.node_type import OUT
from stepwell.authoring.graphs.run.evaluator import Evaluator
from stepwell.authoring.graphs.run.join_rules import Arrivals, JoinVerdict
from stepwell.authoring.graphs.run.state import (
    Failure,
    Marker,
    MarkerKind,
    NodeRun,
    NodeStatus,
    ScopeRun,
    failure_of,
)
from stepwell.authoring.graphs.run.variables import Arrival, Variables, branches, by_arrival, merge_all
from stepwell.authoring.graphs.templates.node_compiler import MergeFunction
from stepwell.domain.codec import PLAIN
from stepwell.errors import ExpressionError, NotSerialisable, StepwellError


class JoinResult(NamedTuple):
    status: NodeStatus
    variables: Variables  # what the join sees
    handles: tuple[str, ...] = ()
    output: Any = None
    failure: Failure | None = None
    markers: tuple[Marker, ...] = ()
    cancels: bool = False  # GR-C1, GR-C3: what leads only to this join and has not settled is cancelled
    fired: bool = False  # settles before it cancels, even if its merge failed


class BranchConflict(Exception):
    """Branches wrote different values, and the join is configured to fail then."""


def count_arrivals(scope: ScopeRun, index: int) -> Arrivals:
    ins = len(scope.plan.nodes[index].ins)
    live, open_ = len(scope.live.get(index, ())), scope.unknown[index]
    errors = len(scope.errors.get(index, ()))
    return Arrivals(live, ins - live - open_, open_, errors, index in scope.expired)


def join_result(node_run: NodeRun, verdict: JoinVerdict, seen: Arrivals, evaluator: Evaluator) -> JoinResult:
    """What follows from a verdict other than WAIT."""
    node = node_run.node
    join: Merge = node.behaviour
    if verdict is JoinVerdict.SKIP:  # it did not fire: branches still under way continue (GR-C1)
        marker = Marker(MarkerKind.SKIPPED, node_run.path)
        return JoinResult(NodeStatus.SKIPPED, node_run.variables, markers=(marker,))
    if verdict is JoinVerdict.FIRE:
        return _fire(node_run, OUT, seen, evaluator)
    if verdict is JoinVerdict.TIMEOUT and "timeout" in node.connected and join.mode != "timeout":
        return _fire(node_run, ("timeout",), seen, evaluator)
    base = node_run.scope.base_of(node)
    cancels = join.cancels or verdict is JoinVerdict.FAIL_FIRST
    return _failed(node_run, base, _failure(node_run, verdict))._replace(cancels=cancels)


def _fire(node_run: NodeRun, handles: tuple[str, ...], seen: Arrivals, evaluator: Evaluator) -> JoinResult:
    """Merge what arrived. If the merge fails, so does the join; its error path starts from the fork."""
    node = node_run.node
    join: Merge = node.behaviour
    base, arrivals = node_run.scope.base_of(node), node_run.scope.arrivals(node.index)
    # With every branch in and mode `all`, nothing is left to cancel.
    cancels = join.cancels and (seen.open > 0 or join.mode != "all")
    markers: list[Marker] = []
    try:
        variables = _merged(node_run, base, arrivals, evaluator, markers)
    except BranchConflict as error:
        failure = Failure("MERGE_CONFLICT", str(error), node.id, node_run.path, config=True)
        return _failed(node_run, base, failure)._replace(cancels=cancels, fired=True)
    except StepwellError as error:
        failure = failure_of(error, node_run)
        return _failed(node_run, base, failure)._replace(cancels=cancels, fired=True)
    ordered = sorted(arrivals, key=lambda arrival: arrival.order)
    output = {
        "arrived": list(dict.fromkeys(arrival.source for arrival in ordered)),
        "errors": [failure.code for failure in _errors(node_run)],
        "timedOut": seen.expired and (handles != OUT or seen.open > 0),
    }
    markers.append(Marker(MarkerKind.COMPLETED, node_run.path, {"output": output, "handles": list(handles)}))
    return JoinResult(
        NodeStatus.COMPLETED,
        variables,
        handles,
        output,
        markers=tuple(markers),
        cancels=cancels,
        fired=True,
    )


# Merging


def _merged(
    node_run: NodeRun,
    base: Variables,
    arrivals: list[Arrival],
    evaluator: Evaluator,
    markers: list[Marker],
) -> Variables:
    join: Merge = node_run.node.behaviour
    if not arrivals:
        return base
    if join.strategy == "merge-all":
        merged = merge_all(base, arrivals)
        if merged.conflicts:
            if join.conflict_fails:
                raise BranchConflict(f"branches wrote different values to {', '.join(merged.conflicts)}")
            markers.append(Marker(MarkerKind.MERGE_CONFLICT, node_run.path, merged.conflicts))
        return merged.variables
    if join.strategy == "custom":
        return _custom(node_run, base, arrivals, evaluator)
    return by_arrival(base, arrivals, last_wins=join.strategy == "last-write")


def _custom(node_run: NodeRun, base: Variables, arrivals: list[Arrival], evaluator: Evaluator) -> Variables:
    join: Merge = node_run.node.behaviour
    if join.function is not None:
        return base.written(node_run.number, None, None, _called(join.function, base, arrivals))
    assert join.custom is not None
    scope: dict[str, Any] = {
        "base": base.values,
        "ctx": base.values,
        "branches": branches(base, arrivals),
        "run": evaluator.run,
    }
    if node_run.scope.loop is not None:
        scope["loop"] = node_run.scope.loop
    writes = join.custom.evaluate(scope, evaluator.now_of(node_run))
    if not isinstance(writes, dict):
        raise ExpressionError(
            "a custom merge must give an object of variables", hint="e.g. branches[0].delta"
        )
    return base.written(node_run.number, None, None, writes)


def _called(function: MergeFunction, base: Variables, arrivals: list[Arrival]) -> dict[str, Any]:
    """Call a merger with copies, so that it can't change the run's variables; its errors are the node's."""
    arguments = PLAIN.decode(PLAIN.encode([base.values, branches(base, arrivals)]))
    try:
        writes = function(*arguments)
    except Exception as error:
        raise NodeError("MERGE_FAILED", f"{type(error).__name__}: {error}", config=True) from error
    if not isinstance(writes, dict):
        raise NodeError("MERGE_FAILED", "a merger must return an object of variables", config=True)
    try:
        copy: dict[str, Any] = PLAIN.decode(PLAIN.encode(writes))
    except NotSerialisable as error:
        raise NodeError("OUTPUT_NOT_JSON", error.message, hint=error.hint, config=True) from None
    return copy


# Failing


def _failed(node_run: NodeRun, base: Variables, failure: Failure) -> JoinResult:
    marker = Marker(MarkerKind.FAILED, node_run.path, failure)
    return JoinResult(NodeStatus.FAILED, base, failure=failure, markers=(marker,))


def _errors(node_run: NodeRun) -> list[Failure]:
    """Branch errors in the order in which their nodes are declared, whenever they occurred."""
    nodes = node_run.scope.plan.by_id
    errors = node_run.scope.errors.get(node_run.node.index, ())
    return sorted(errors, key=lambda failure: nodes[failure.node].index if failure.node in nodes else -1)


def _failure(node_run: NodeRun, verdict: JoinVerdict) -> Failure:
    node = node_run.node
    if verdict is JoinVerdict.FAIL_FIRST:
        return node_run.scope.errors[node.index][0]
    if verdict is JoinVerdict.TIMEOUT:
        return Failure("JOIN_TIMEOUT", "too few branches arrived in time", node.id, node_run.path)
    failures = tuple(_errors(node_run))
    codes = ", ".join(f"{failure.node}: {failure.code}" for failure in failures)
    path = failures[0].path if failures else node_run.path
    if verdict is JoinVerdict.FAIL_BRANCHES:
        return Failure("BRANCHES_FAILED", f"branches failed: {codes}", node.id, path, branches=failures)
    why = "a required branch was not taken"
    if failures:
        why = f"too few branches can still arrive; failed: {codes}"
    return Failure("JOIN_UNSATISFIED", why, node.id, path, branches=failures)
