"""Frontier: what happens next in a graph. Pure: facts go in, asks and notes come out, nothing else.

GR-R1  A scope opens by starting its nodes without in-edges.
GR-R2  A settled step makes the edges of its selected handles live and the others dead.
GR-R3  A node is decided when no in-edge is unknown: one live edge and it runs once, none and it is
    skipped. GR-R4 A skipped step's edges are dead; that goes on until the border of the scope.
GR-R5  Decisions depend on the order of facts alone, so feeding the same facts again decides the same.
GR-X3  A failure goes to the innermost handler: the node's error edge, the join of the smallest region,
    the container, the scope around it, and at last the run.
Each fact costs the in- and out-edges of what it settles, however large the graph is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from stepwell.authoring.graphs.build.plan import GraphPlan, NodePlan
from stepwell.authoring.graphs.nodes.node_type import NodeOutcome, Role
from stepwell.authoring.graphs.run.containers import Containers
from stepwell.authoring.graphs.run.finally_blocks import Cleanups
from stepwell.authoring.graphs.run.join_firing import Joining
from stepwell.authoring.graphs.run.loops import Loops
from stepwell.authoring.graphs.run.node_start import Starting
from stepwell.authoring.graphs.run.state import (
    SETTLED,
    WORKING,
    Action,
    Command,
    Failure,
    GraphResult,
    Marker,
    MarkerKind,
    NodeRun,
    NodeStatus,
    ScopeRun,
    Withdrawal,
)
from stepwell.authoring.graphs.run.variables import Arrival, Variables, merge_all

Clock = Callable[[str], float]


class Frontier:
    def __init__(
        self,
        plan: GraphPlan,
        *,
        run: Mapping[str, Any],
        clock: Clock,
        known: Callable[[str], bool] = lambda path: False,
        observe: Callable[[NodeRun], None] | None = None,
        test: bool = False,
    ) -> None:
        self.plan = plan
        self.run = run  # what expressions see as `run`
        self.clock = clock  # the time for whoever asks at a path; must be the same on replay
        self.known = known  # the log has this path's result: no need to prepare it
        self.observe = observe  # told of every step that begins or settles
        self.test = test  # pinned data counts
        self.actions: list[Action] = []
        self.end: GraphResult | None = None
        self._outcome: GraphResult | None = None  # decided; it is the end when all is cleaned up
        self.output: dict[str, Any] = {}
        self.open_asks: dict[Command, None] = {}
        self._ready: deque[tuple[ScopeRun, int]] = deque()
        self._joins: dict[tuple[int, int], ScopeRun] = {}  # (id of scope, index): decided after a cascade
        self._ending: deque[ScopeRun] = deque()
        self._count = 0
        self.joining = Joining(self)
        self.loops = Loops(self)
        self.containers = Containers(self)
        self.cleanups = Cleanups(self)
        self.starting = Starting(self)
        self.root: ScopeRun | None = None

    # Facts

    def begin(self, input: Any) -> None:
        self.root = ScopeRun(self.plan.root, "", Variables({"input": input}, {}))
        self.open(self.root)
        self._pump()

    def answer(self, ask: Command, value: Any) -> None:
        """What was asked for came: a result, a decision, an event; None for a timer."""
        if self._close(ask):
            self.starting.answered(ask, value)
            self._pump()

    def fail(self, ask: Command, failure: Failure) -> None:
        """What was asked for failed for good."""
        if self._close(ask):
            self.starting.failed(ask, failure)
            self._pump()

    def _close(self, ask: Command) -> bool:
        if ask.done or self.end is not None:
            return False
        ask.done = True
        self.open_asks.pop(ask, None)
        if ask.step is not None and ask in ask.step.asks:
            ask.step.asks.remove(ask)
        return True

    @property
    def works(self) -> bool:
        """Something runs or waits for its next attempt; else the run only waits (GR-P1)."""
        return any(ask.purpose in WORKING for ask in self.open_asks)

    def close(self) -> None:
        """It is over: let go of what refers to it, so that all is freed at once."""
        if self.root is not None:
            self.root.steps.clear()
        del self.joining, self.loops, self.containers, self.cleanups, self.starting
        self.root, self.observe = None, None
        self.open_asks.clear()

    # The pump

    def _pump(self) -> None:
        ready, joins, ending = self._ready, self._joins, self._ending
        while self.end is None:
            if ready:
                scope, index = ready.popleft()
                if not scope.closed and scope.steps[index] is None:
                    self._decide(scope, index)
            elif joins:
                key = next(iter(joins))
                scope = joins.pop(key)
                if not scope.closed:
                    self.joining.decide(scope, key[1])
            elif ending:
                scope = ending.popleft()
                if not scope.closed:
                    scope.closed = True
                    self._scope_done(scope)
            else:
                return

    def open(self, scope: ScopeRun) -> None:
        for index in scope.plan.entries:
            self._ready.append((scope, index))
        for index in scope.plan.timed_joins:
            self.joining.start_clock(scope, index)

    def _decide(self, scope: ScopeRun, index: int) -> None:
        node = scope.plan.nodes[index]
        live = scope.live.get(index)
        if not node.ins:
            context = scope.base
        elif not live:
            self._skip(scope, node)
            return
        elif len(live) == 1:
            source = scope.steps[live[0].source]
            assert source is not None
            context = source.behind
        else:
            merged = merge_all(self.base_of(scope, node), self.arrivals(scope, index))
            context = merged.context
            if merged.conflicts:
                self.note(MarkerKind.MERGE_CONFLICT, scope.prefix + node.id, merged.conflicts)
        self.starting.start(self.make(scope, node, context))

    def base_of(self, scope: ScopeRun, node: NodePlan) -> Variables:
        """The context behind the node where the branches began."""
        fork = scope.steps[node.idom] if node.idom >= 0 else None
        return scope.base if fork is None else fork.behind

    def arrivals(self, scope: ScopeRun, index: int) -> list[Arrival]:
        found = []
        for edge in scope.live.get(index, ()):
            source = scope.steps[edge.source]
            assert source is not None
            found.append(Arrival(source.node.id, source.behind, edge.order))
        return found

    def make(self, scope: ScopeRun, node: NodePlan, context: Variables) -> NodeRun:
        self._count += 1
        step = NodeRun(node, scope, context, self._count)
        scope.steps[node.index] = step
        return step

    # Settling

    def complete(self, step: NodeRun, outcome: NodeOutcome) -> None:
        """The node is done: write its output and let its edges live."""
        node = step.node
        step.output = outcome.output
        behind = step.context.written(step.number, node.variable, outcome.output, outcome.writes)
        self.settle(step, NodeStatus.COMPLETED, outcome.handles, behind)
        if node.type == "end" and isinstance(outcome.output, dict):
            self.output.update(outcome.output)
        if outcome.terminate and self._outcome is None:
            self._finish(GraphResult(self.output))

    def settle(
        self,
        step: NodeRun,
        status: NodeStatus,
        handles: tuple[str, ...] = (),
        behind: Variables | None = None,
    ) -> None:
        assert step.status not in SETTLED, f"{step.path} settled twice"
        scope, node = step.scope, step.node
        step.status = status
        step.handles = handles
        if behind is not None:
            step.behind = behind
        scope.open -= 1
        if self.observe is not None:
            self.observe(step)
        unknown = scope.unknown
        for edge in node.outs:
            target = edge.target
            unknown[target] -= 1
            alive = edge.handle in handles
            if alive:
                scope.live.setdefault(target, []).append(edge)
            there = scope.steps[target]
            if scope.plan.nodes[target].role is Role.JOIN:
                if there is None:
                    self._joins[id(scope), target] = scope
                elif alive and there.status is not NodeStatus.CANCELLED:
                    self.note(MarkerKind.JOIN_LATE, there.path, node.id)
            elif unknown[target] == 0 and there is None:
                self._ready.append((scope, target))
        if node.timed_joins and handles:
            for index in node.timed_joins:
                self.joining.start_clock(scope, index)
        if scope.open == 0:
            self._ending.append(scope)

    def seen(self, step: NodeRun) -> None:
        if self.observe is not None:
            self.observe(step)

    def _skip(self, scope: ScopeRun, node: NodePlan) -> None:
        step = self.make(scope, node, scope.base)
        self.note(MarkerKind.SKIPPED, step.path)
        self.settle(step, NodeStatus.SKIPPED)

    # Failing

    def failed(self, step: NodeRun, failure: Failure) -> None:
        """A node failed for good; who handles it?"""
        node, scope = step.node, step.scope
        step.error = failure
        if "error" in node.connected and node.data.error_handling == "continue":
            step.handled = True
            behind = step.context.written(step.number, None, None, {"error": failure.as_context()})
            self.settle(step, NodeStatus.FAILED, ("error",), behind)
            return
        if node.data.error_handling == "fail_workflow":
            self.settle(step, NodeStatus.FAILED)
            self.finish_failed(failure)
            return
        if node.join >= 0:
            self.settle(step, NodeStatus.FAILED)
            if scope.steps[node.join] is None:
                scope.errors.setdefault(node.join, []).append(failure)
                join = scope.plan.nodes[node.join]
                if join.behaviour.errors == "fail-fast":
                    self.joining.decide(scope, node.join)
                else:
                    self._joins[id(scope), node.join] = scope
            return
        self.settle(step, NodeStatus.FAILED)
        self.scope_failed(scope, failure)

    def scope_failed(self, scope: ScopeRun, failure: Failure) -> None:
        self.cancel_scope(scope)
        if scope.owner is None:
            self.finish_failed(failure)
        elif not self.cleanups.ended(scope):
            self.containers.body_failed(scope.owner, scope, failure)

    def finish_failed(self, failure: Failure) -> None:
        if self._outcome is None:
            self._finish(GraphResult(None, failure))

    def _finish(self, outcome: GraphResult) -> None:
        self._outcome = outcome
        self.cancel_scope(self._root())
        self.cleaned_up()

    def cleaned_up(self) -> None:
        if self._outcome is not None and not self.cleanups:
            self.end = self._outcome

    def _scope_done(self, scope: ScopeRun) -> None:
        if scope.owner is None:
            self._finish(GraphResult(self.output))
        elif not self.cleanups.ended(scope):
            self.containers.body_done(scope.owner, scope, self._behind(scope))

    def _behind(self, scope: ScopeRun) -> Variables:
        """The context at the end of a body: where it ended, by live edges, comes together as at a join."""
        arrivals = []
        for index, step in enumerate(scope.steps):
            if step is None or step.status is not NodeStatus.COMPLETED:
                continue
            if not any(edge.handle in step.handles for edge in step.node.outs):
                arrivals.append(Arrival(step.node.id, step.behind, index))
        if not arrivals:
            return scope.base
        merged = merge_all(scope.base, arrivals)
        if merged.conflicts:
            self.note(MarkerKind.MERGE_CONFLICT, scope.prefix.rstrip("/"), merged.conflicts)
        return merged.context

    def _root(self) -> ScopeRun:
        assert self.root is not None
        return self.root

    # Cancelling

    def cancel(self) -> None:
        """GR-C4: nothing goes on but what cleans up; `end` says when that is done."""
        self._outcome = GraphResult(None)
        self.cleanups.interrupting = True
        self.cleanups.stop()
        self.cancel_scope(self._root())
        self.cleanups.interrupting = False
        self.cleaned_up()
        self._pump()

    def abandon(self) -> None:
        """GR-C5, or somebody ended the run from outside: all is settled at once, nothing cleans up."""
        if self.end is None and self.root is not None:
            self.cleanups.off = True
            self.cancel()

    def cancel_scope(self, scope: ScopeRun) -> None:
        """Everything in it that has not settled; nothing leaves the scope."""
        scope.closed = True
        if not scope.open and not scope.clocks:
            return  # all have
        for index in range(len(scope.steps)):
            self.cancel_node(scope, index)

    def cancel_node(self, scope: ScopeRun, index: int) -> None:
        step = scope.steps[index]
        clock = scope.clocks.pop(index, None)
        if clock is not None:
            self.withdraw(clock)
        if step is None:
            # Never begun: settled without a row of its own in the log.
            step = self.make(scope, scope.plan.nodes[index], scope.base)
        elif step.status in SETTLED:
            return
        else:
            if step.node.ending is not None:
                self.cleanups.cancel(step)
            else:
                self.stop(step)
            self.note(MarkerKind.CANCELLED, step.path)
        self.settle(step, NodeStatus.CANCELLED)

    def stop(self, step: NodeRun) -> None:
        """Withdraw what the step waits for, in its bodies too."""
        for ask in list(step.asks):
            self.withdraw(ask)
        if step.body is not None and not step.body.closed:
            self.cancel_scope(step.body)
        if step.loop is not None:
            for scope in list(step.loop.running.values()):
                self.cancel_scope(scope)

    # Asking

    def ask(self, ask: Command) -> None:
        self.open_asks[ask] = None
        if ask.step is not None:
            ask.step.asks.append(ask)
            if self.observe is not None:
                self.observe(ask.step)
        self.actions.append(ask)

    def withdraw(self, ask: Command) -> None:
        if not ask.done:
            ask.done = True
            self.open_asks.pop(ask, None)
            if ask.step is not None and ask in ask.step.asks:
                ask.step.asks.remove(ask)
            self.starting.withdrawn(ask)
            self.actions.append(Withdrawal(ask))

    def note(self, kind: MarkerKind, path: str, data: Any = None) -> None:
        self.actions.append(Marker(kind, path, data))

    def take_actions(self) -> list[Action]:
        actions, self.actions = self.actions, []
        return actions
