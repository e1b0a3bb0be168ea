"""Joining: what the frontier does at a `merge`: its clock, its firing, and what becomes of the losers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwell.authoring.graphs.build.plan import NodePlan
from stepwell.authoring.graphs.errors import NodeError
from stepwell.authoring.graphs.nodes.join import Merge
from stepwell.authoring.graphs.nodes.node_type import OUT
from stepwell.authoring.graphs.run.join_rules import Arrivals, JoinVerdict, decide
from stepwell.authoring.graphs.run.state import (
    Command,
    CommandKind,
    Failure,
    MarkerKind,
    NodeRun,
    NodeStatus,
    ScopeRun,
)
from stepwell.authoring.graphs.run.variables import Arrival, Variables, branches, by_arrival, merge_all
from stepwell.authoring.graphs.templates.node_compiler import MergeFunction
from stepwell.domain.codec import PLAIN
from stepwell.errors import ExpressionError, NotSerialisable, StepwellError

if TYPE_CHECKING:
    from stepwell.authoring.graphs.run.frontier import Frontier


class BranchConflict(Exception):
    """Branches wrote different values, and the join is told to fail then."""


class Joining:
    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier

    # The clock

    def start_clock(self, scope: ScopeRun, index: int) -> None:
        """GR-J4: it starts when the fork settles, and is durable."""
        join = scope.plan.nodes[index]
        if scope.steps[index] is None and index not in scope.clocks:
            path = f"{scope.prefix}{join.id}@timeout"
            ask = Command(CommandKind.JOIN, path, None, join.behaviour.timeout, scope)
            scope.clocks[index] = ask
            self._frontier.ask(ask)

    def clock_ran_out(self, ask: Command) -> None:
        scope = ask.scope
        assert scope is not None
        index = next(index for index, clock in scope.clocks.items() if clock is ask)
        del scope.clocks[index]
        if not scope.closed:
            scope.expired.add(index)
            self.decide(scope, index)

    # Deciding

    def decide(self, scope: ScopeRun, index: int) -> None:
        if scope.steps[index] is not None:
            return
        node = scope.plan.nodes[index]
        live, open_ = len(scope.live.get(index, ())), scope.unknown[index]
        seen = Arrivals(
            live,
            len(node.ins) - live - open_,
            open_,
            len(scope.errors.get(index, ())),
            index in scope.expired,
        )
        move = decide(node.behaviour, seen)
        if move is not JoinVerdict.WAIT:
            self._settle(scope, node, move, seen)

    def _settle(self, scope: ScopeRun, node: NodePlan, move: JoinVerdict, seen: Arrivals) -> None:
        frontier = self._frontier
        step = frontier.make(scope, node, scope.base)
        clock = scope.clocks.pop(node.index, None)
        if clock is not None:
            frontier.withdraw(clock)
        if move is JoinVerdict.SKIP:  # it did not fire: whoever is still on the way goes on (GR-C1)
            frontier.note(MarkerKind.SKIPPED, step.path)
            frontier.settle(step, NodeStatus.SKIPPED)
            return
        if move is JoinVerdict.FIRE:
            self._fire(step, OUT, seen)
        elif move is JoinVerdict.TIMEOUT and "timeout" in node.connected and node.behaviour.mode != "timeout":
            self._fire(step, ("timeout",), seen)
        else:
            step.context = frontier.base_of(scope, node)
            self._cancel_region(step, always=move is JoinVerdict.FAIL_FIRST)
            self._fail(step, self._failure(step, move))
            return
        if seen.open or node.behaviour.mode != "all":  # else nobody is left who could lose
            self._cancel_region(step)

    def _fire(self, step: NodeRun, handles: tuple[str, ...], seen: Arrivals) -> None:
        """Merge what arrived and go on. A merge that fails fails the join."""
        frontier, scope, node = self._frontier, step.scope, step.node
        arrivals = frontier.arrivals(scope, node.index)
        base = frontier.base_of(scope, node)
        join: Merge = node.behaviour
        step.context = base  # should the merge fail, its error path goes on from the fork
        try:
            merged = self._merged(step, join, base, arrivals)
        except BranchConflict as error:
            self._fail(step, Failure("MERGE_CONFLICT", str(error), node.id, step.path, config=True))
            return
        except StepwellError as error:
            self._fail(
                step, Failure(error.code, error.message, node.id, step.path, hint=error.hint, config=True)
            )
            return
        ordered = sorted(arrivals, key=lambda arrival: arrival.order)
        output = {
            "arrived": list(dict.fromkeys(arrival.source for arrival in ordered)),
            "errors": [failure.code for failure in self._errors(step)],
            "timedOut": seen.expired and (handles != OUT or seen.open > 0),
        }
        step.context = merged
        step.output = output
        behind = merged.written(step.number, node.variable, output, None)
        frontier.note(MarkerKind.COMPLETED, step.path, {"output": output, "handles": list(handles)})
        frontier.settle(step, NodeStatus.COMPLETED, handles, behind)

    def _merged(self, step: NodeRun, join: Merge, base: Variables, arrivals: list[Arrival]) -> Variables:
        if not arrivals:
            return base
        if join.strategy == "merge-all":
            merged = merge_all(base, arrivals)
            if merged.conflicts:
                if join.conflict_fails:
                    raise BranchConflict(f"branches wrote different values to {', '.join(merged.conflicts)}")
                self._frontier.note(MarkerKind.MERGE_CONFLICT, step.path, merged.conflicts)
            return merged.context
        if join.strategy == "custom":
            return self._custom(step, join, base, arrivals)
        return by_arrival(base, arrivals, last_wins=join.strategy == "last-write")

    def _custom(self, step: NodeRun, join: Merge, base: Variables, arrivals: list[Arrival]) -> Variables:
        if join.function is not None:
            return base.written(step.number, None, None, _called(join.function, base, arrivals))
        assert join.custom is not None
        scope: dict[str, Any] = {
            "base": base.values,
            "ctx": base.values,
            "branches": branches(base, arrivals),
            "run": self._frontier.run,
        }
        if step.scope.loop is not None:
            scope["loop"] = step.scope.loop
        now = self._frontier.clock(step.path) if step.node.uses_time else None
        found = join.custom.evaluate(scope, now)
        if not isinstance(found, dict):
            raise ExpressionError(
                "a custom merge gives an object of variables", hint="e.g. branches[0].delta"
            )
        return base.written(step.number, None, None, found)

    # Failing

    def _errors(self, step: NodeRun) -> list[Failure]:
        """Branch errors in the order in which their nodes are declared: not a matter of timing."""
        place = step.scope.plan.by_id
        found = step.scope.errors.get(step.node.index, ())
        return sorted(found, key=lambda failure: place[failure.node].index if failure.node in place else -1)

    def _failure(self, step: NodeRun, move: JoinVerdict) -> Failure:
        node = step.node
        if move is JoinVerdict.FAIL_FIRST:
            return step.scope.errors[node.index][0]
        if move is JoinVerdict.TIMEOUT:
            return Failure("JOIN_TIMEOUT", "too few branches arrived in time", node.id, step.path)
        failures = tuple(self._errors(step))
        told = ", ".join(f"{failure.node}: {failure.code}" for failure in failures)
        path = failures[0].path if failures else step.path
        if move is JoinVerdict.FAIL_BRANCHES:
            return Failure("BRANCHES_FAILED", f"branches failed: {told}", node.id, path, branches=failures)
        why = "a branch that it needs was not taken"
        if failures:
            why = f"too few branches can still arrive; failed: {told}"
        return Failure("JOIN_UNSATISFIED", why, node.id, path, branches=failures)

    def _fail(self, step: NodeRun, failure: Failure) -> None:
        self._frontier.note(MarkerKind.FAILED, step.path, failure)
        self._frontier.failed(step, failure)

    def _cancel_region(self, step: NodeRun, *, always: bool = False) -> None:
        """GR-C1, GR-C3: what only leads to this join and has not settled is not wanted any more."""
        if step.node.behaviour.cancels or always:
            for index in step.node.region:
                self._frontier.cancel_node(step.scope, index)


def _called(function: MergeFunction, base: Variables, arrivals: list[Arrival]) -> dict[str, Any]:
    """What a merger gives for copies of what it is told; its mistakes are the node's."""
    told = PLAIN.decode(PLAIN.encode([base.values, branches(base, arrivals)]))
    try:
        found = function(*told)
    except Exception as error:
        raise NodeError("MERGE_FAILED", f"{type(error).__name__}: {error}", config=True) from error
    if not isinstance(found, dict):
        raise NodeError("MERGE_FAILED", "a merger returns an object of variables", config=True)
    try:
        copy: dict[str, Any] = PLAIN.decode(PLAIN.encode(found))
    except NotSerialisable as error:
        raise NodeError("OUTPUT_NOT_JSON", error.message, hint=error.hint, config=True) from None
    return copy
