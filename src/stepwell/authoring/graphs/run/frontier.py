"""Frontier: decides what happens next in a graph. Pure: facts go in, commands and markers come out.

GR-R1  A scope opens by starting its nodes without in-edges.
GR-R2  A settled node makes the edges of its selected handles live and the others dead.
GR-R3  A node is decided when no in-edge is unknown: with a live edge it runs once, with none it is
    skipped. GR-R4 The edges of a skipped node are dead, and so on up to the border of the scope.
GR-R5  Decisions depend on the order of facts alone, so feeding the same facts again decides the same.
GR-X3  A failure goes to the innermost handler: the node's error edge, the join of the smallest region,
    the container, the scope around it, and finally the run.
Each fact costs the in- and out-edges of the nodes it settles, however large the graph is.

The helpers (node_start, join_firing, containers, finally_blocks, event_mailbox) return values; only the
frontier changes the state of the run and emits actions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from stepwell.authoring.graphs.build.plan import GraphPlan, NodePlan
from stepwell.authoring.graphs.nodes.node_type import NodeOutcome, Role
from stepwell.authoring.graphs.run.containers import Containers, cancelled_finally
from stepwell.authoring.graphs.run.evaluator import Evaluator
from stepwell.authoring.graphs.run.event_mailbox import EventMessage, Mailbox
from stepwell.authoring.graphs.run.finally_blocks import FinallyBlocks, in_finally
from stepwell.authoring.graphs.run.join_rules import JoinVerdict, decide
from stepwell.authoring.graphs.run.joins import JoinResult, count_arrivals, join_result
from stepwell.authoring.graphs.run.node_start import NodeStarter
from stepwell.authoring.graphs.run.state import (
    EVENT,
    SETTLED,
    WORKING,
    Action,
    Command,
    CommandKind,
    Effect,
    Failure,
    GraphResult,
    Marker,
    MarkerKind,
    NodeRun,
    NodeStatus,
    ScopeRun,
    Stop,
    Withdrawal,
    new_node_run,
)
from stepwell.authoring.graphs.run.variables import Arrival, Replaced, Variables, merge_all


class Frontier:
    def __init__(
        self,
        plan: GraphPlan,
        *,
        run: Mapping[str, Any],
        clock: Callable[[str], float],
        recorded: Callable[[str], bool] = lambda path: False,
        observe: Callable[[NodeRun], None] | None = None,
        test: bool = False,
    ) -> None:
        """`clock` gives the time at a path, the same on replay; `observe` sees every node run that
        begins or settles; `test` uses pinned data."""
        self.actions: list[Action] = []
        self.result: GraphResult | None = None
        self.open_commands: dict[Command, None] = {}
        self._plan = plan
        self._observe = observe
        self._ending: GraphResult | None = None  # decided; the result once all finally blocks are over
        self._output: dict[str, Any] = {}
        self._ready: deque[tuple[ScopeRun, int]] = deque()
        self._joins: dict[tuple[int, int], ScopeRun] = {}  # (id of scope, index): decided after a cascade
        self._done: deque[ScopeRun] = deque()
        self._count = 0
        self._outside_loops = 0
        self._max_steps = plan.settings.max_steps
        self._evaluator = Evaluator(run, clock)
        self._containers = Containers(self._evaluator, recorded)
        ttl = plan.settings.suspend_ttl_ms
        self._starter = NodeStarter(
            self._evaluator,
            self._containers,
            recorded=recorded,
            test=test,
            wait_limit=None if ttl is None else ttl / 1000,
        )
        self._finally_blocks = FinallyBlocks()
        self._mailbox = Mailbox()
        self._root: ScopeRun | None = None

    # Facts

    def begin(self, input: Any) -> None:
        self._root = ScopeRun(self._plan.root, "", Variables({"input": input}, {}))
        self._open(self._root)
        self._pump()

    def answer(self, command: Command, value: Any) -> None:
        """A command was answered: a result, a decision, an event; None for a timer."""
        if command.done or self.result is not None:
            return
        self._close(command)
        if command.node_run is not None:
            self.apply(command.node_run, self._starter.answered(command, value))
        elif command.kind is CommandKind.MAILBOX:
            self._receive(command, value)
        else:
            self._join_expired(command)
        self._pump()

    def fail(self, command: Command, failure: Failure) -> None:
        """A command failed for good."""
        if command.done or self.result is not None:
            return
        self._close(command)
        assert command.node_run is not None, f"{command} cannot fail"
        self.apply(command.node_run, self._starter.failed(command, failure))
        self._pump()

    def set_variable(self, name: str, value: Any) -> None:
        """GR-M5: a person set a variable. Whatever is decided from now on sees the value.

        Every branch gets the value under one mark, so that no join takes it for a write of a branch.
        """
        roots = [] if self._root is None else [self._root]
        replaced = Replaced(name, value)
        for scope in _open_scopes([*roots, *self._finally_blocks.scopes()]):
            scope.base = replaced.of(scope.base)
            for node_run in scope.node_runs:
                if node_run is not None:
                    node_run.variables = replaced.of(node_run.variables)
                    node_run.after = replaced.of(node_run.after)

    @property
    def works(self) -> bool:
        """Whether something runs or waits for its next attempt; otherwise the run only waits (GR-P1)."""
        return any(command.kind in WORKING for command in self.open_commands)

    @property
    def root(self) -> ScopeRun | None:
        return self._root

    def open_scopes(self) -> Iterator[ScopeRun]:
        """Return the scopes that are still open, outer ones first."""
        return _open_scopes([] if self._root is None else [self._root])

    def take_actions(self) -> list[Action]:
        actions, self.actions = self.actions, []
        return actions

    def close(self) -> None:
        """Drop the references that form cycles, so that everything is freed at once."""
        if self._root is not None:
            self._root.node_runs.clear()
        self._root, self._observe = None, None
        self.open_commands.clear()

    # The pump

    def _pump(self) -> None:
        ready, joins, done = self._ready, self._joins, self._done
        while self.result is None:
            if ready:
                scope, index = ready.popleft()
                if not scope.closed and scope.node_runs[index] is None:
                    self._decide(scope, index)
            elif joins:
                key = next(iter(joins))
                scope = joins.pop(key)
                if not scope.closed:
                    self._decide_join(scope, key[1])
            elif done:
                scope = done.popleft()
                if not scope.closed:
                    scope.closed = True
                    self._scope_done(scope)
            else:
                return

    def _open(self, scope: ScopeRun) -> None:
        for index in scope.plan.entries:
            self._ready.append((scope, index))
        for index in scope.plan.timed_joins:
            self._start_clock(scope, index)

    def _decide(self, scope: ScopeRun, index: int) -> None:
        node = scope.plan.nodes[index]
        live = scope.live.get(index)
        if not node.ins:
            variables = scope.base
        elif not live:
            self._skip(scope, node)
            return
        elif len(live) == 1:
            source = scope.node_runs[live[0].source]
            assert source is not None
            variables = source.after
        else:
            variables = self._merge(scope.base_of(node), scope.arrivals(index), scope.prefix + node.id)
        self._start(self._add(scope, node, variables))

    def _merge(self, base: Variables, arrivals: list[Arrival], path: str) -> Variables:
        merged = merge_all(base, arrivals)
        if merged.conflicts:
            self._mark(MarkerKind.MERGE_CONFLICT, path, merged.conflicts)
        return merged.variables

    def _add(self, scope: ScopeRun, node: NodePlan, variables: Variables) -> NodeRun:
        self._count += 1
        node_run = new_node_run(node, scope, variables, self._count)
        scope.node_runs[node.index] = node_run
        return node_run

    def _start(self, node_run: NodeRun) -> None:
        if node_run.scope.loop is None:
            self._outside_loops += 1
            if self._outside_loops > self._max_steps:
                self._step_limit(node_run)
                return
        if self._observe is not None and node_run.node.role is Role.CONTAINER:
            self._observe(node_run)
        self.actions.append(node_run)
        self.apply(node_run, self._starter.start(node_run))

    def _step_limit(self, node_run: NodeRun) -> None:
        self._finally_blocks.off = True  # they would exceed the limit further
        self._cancel_finally_blocks()
        self._finish_failed(
            Failure(
                "STEP_LIMIT",
                f"more than {self._max_steps} nodes were started outside loops",
                node_run.node.id,
                node_run.path,
                hint="raise settings.maxSteps if this is intended",
            )
        )

    def _skip(self, scope: ScopeRun, node: NodePlan) -> None:
        node_run = self._add(scope, node, scope.base)
        self._mark(MarkerKind.SKIPPED, node_run.path)
        self._settle(node_run, NodeStatus.SKIPPED)

    # Effects

    def apply(self, node_run: NodeRun, effects: Iterable[Effect]) -> None:
        """Carry out what a helper decided for a node run, in order."""
        for effect in effects:
            if isinstance(effect, Command):
                self._send(effect)
            elif isinstance(effect, NodeOutcome):
                self._complete(node_run, effect)
            elif isinstance(effect, Marker):
                self.actions.append(effect)
            elif isinstance(effect, Failure):
                self._failed(node_run, effect)
            elif isinstance(effect, Stop):
                self._stop(node_run)
            else:
                if node_run.loop is None:
                    node_run.body = effect
                self._open(effect)

    def _send(self, command: Command) -> None:
        self.open_commands[command] = None
        node_run = command.node_run
        if node_run is not None:
            node_run.commands = (*node_run.commands, command)
            if self._observe is not None:
                self._observe(node_run)
        self.actions.append(command)
        if command.kind is EVENT:
            self._await_event(command)

    def _close(self, command: Command) -> None:
        command.done = True
        self.open_commands.pop(command, None)
        node_run = command.node_run
        if node_run is not None and node_run.commands:
            node_run.commands = tuple([other for other in node_run.commands if other is not command])
        if command.kind is EVENT:
            listening = self._mailbox.remove(command)
            if listening is not None:
                self._withdraw(listening)

    def _withdraw(self, command: Command) -> None:
        if not command.done:
            self._close(command)
            self.actions.append(Withdrawal(command))

    def _mark(self, kind: MarkerKind, path: str, data: Any = None) -> None:
        self.actions.append(Marker(kind, path, data))

    # Settling

    def _complete(self, node_run: NodeRun, outcome: NodeOutcome) -> None:
        """Write the node's output and make its edges live."""
        node = node_run.node
        node_run.output = outcome.output
        after = node_run.variables.written(node_run.number, node.variable, outcome.output, outcome.writes)
        self._settle(node_run, NodeStatus.COMPLETED, outcome.handles, after)
        if node.type == "end" and isinstance(outcome.output, dict):
            self._output.update(outcome.output)
        if outcome.terminate and self._ending is None:
            self._finish(GraphResult(self._output))

    def _settle(
        self,
        node_run: NodeRun,
        status: NodeStatus,
        handles: tuple[str, ...] = (),
        after: Variables | None = None,
    ) -> None:
        assert node_run.status not in SETTLED, f"{node_run.path} settled twice"
        scope, node = node_run.scope, node_run.node
        node_run.status = status
        node_run.handles = handles
        if after is not None:
            node_run.after = after
        scope.open -= 1
        if self._observe is not None:
            self._observe(node_run)
        unknown = scope.unknown
        for edge in node.outs:
            target = edge.target
            unknown[target] -= 1
            alive = edge.handle in handles
            if alive:
                scope.live.setdefault(target, []).append(edge)
            target_run = scope.node_runs[target]
            if edge.to_join:
                if target_run is None:
                    self._joins[id(scope), target] = scope
                elif alive and target_run.status is not NodeStatus.CANCELLED:
                    self._mark(MarkerKind.JOIN_LATE, target_run.path, node.id)
            elif unknown[target] == 0 and target_run is None:
                self._ready.append((scope, target))
        if node.timed_joins and handles:
            for index in node.timed_joins:
                self._start_clock(scope, index)
        if scope.open == 0:
            self._done.append(scope)

    # Joins

    def _start_clock(self, scope: ScopeRun, index: int) -> None:
        """GR-J4: a join's deadline starts when its fork settles, and is durable."""
        join = scope.plan.nodes[index]
        if scope.node_runs[index] is None and index not in scope.clocks:
            path = f"{scope.prefix}{join.id}@timeout"
            command = Command(CommandKind.JOIN_DEADLINE, path, None, join.behaviour.timeout, scope)
            scope.clocks[index] = command
            self._send(command)

    def _join_expired(self, command: Command) -> None:
        scope = command.scope
        assert scope is not None
        index = next(index for index, clock in scope.clocks.items() if clock is command)
        del scope.clocks[index]
        if not scope.closed:
            scope.expired.add(index)
            self._decide_join(scope, index)

    def _decide_join(self, scope: ScopeRun, index: int) -> None:
        if scope.node_runs[index] is not None:
            return
        node, seen = scope.plan.nodes[index], count_arrivals(scope, index)
        verdict = decide(node.behaviour, seen)
        if verdict is not JoinVerdict.WAIT:
            node_run = self._add(scope, node, scope.base)
            if verdict is not JoinVerdict.SKIP:
                self.actions.append(node_run)
            clock = scope.clocks.pop(index, None)
            if clock is not None:
                self._withdraw(clock)
            self._apply_join(node_run, join_result(node_run, verdict, seen, self._evaluator))

    def _apply_join(self, node_run: NodeRun, result: JoinResult) -> None:
        node_run.variables = result.variables
        if result.cancels and not result.fired:
            self._cancel_region(node_run)
        self.actions.extend(result.markers)
        if result.failure is not None:
            self._failed(node_run, result.failure)
        else:
            after = result.variables
            if result.status is NodeStatus.COMPLETED:
                node_run.output = result.output
                after = after.written(node_run.number, node_run.node.variable, result.output, None)
            self._settle(node_run, result.status, result.handles, after)
        if result.cancels and result.fired:
            self._cancel_region(node_run)

    def _cancel_region(self, join: NodeRun) -> None:
        for index in join.node.region:
            self._cancel_node(join.scope, index)

    # Events

    def _await_event(self, waiter: Command) -> None:
        event = self._mailbox.add(waiter)
        if event is not None:
            self._deliver(waiter, event)
        else:
            self._listen(waiter.data.name)

    def _listen(self, name: str) -> None:
        command = self._mailbox.listen(name)
        if command is not None:
            self._send(command)

    def _receive(self, command: Command, event: EventMessage) -> None:
        waiter = self._mailbox.receive(command, event)
        if waiter is not None:
            self._deliver(waiter, event)
        self._listen(command.data)

    def _deliver(self, waiter: Command, event: EventMessage) -> None:
        node_run = waiter.node_run
        assert node_run is not None
        node_run.event = event
        self._withdraw(waiter)
        self._complete(node_run, node_run.node.behaviour.answered(event.get("data")))

    # Failing

    def _failed(self, node_run: NodeRun, failure: Failure) -> None:
        """A node failed for good: pass the failure to the innermost handler (GR-X3)."""
        node, scope = node_run.node, node_run.scope
        node_run.error = failure
        if "error" in node.connected and node.data.error_handling == "continue":
            node_run.handled = True
            error = {"error": failure.as_context()}
            after = node_run.variables.written(node_run.number, None, None, error)
            self._settle(node_run, NodeStatus.FAILED, ("error",), after)
            return
        self._settle(node_run, NodeStatus.FAILED)
        if node.data.error_handling == "fail_workflow":
            self._finish_failed(failure)
        elif node.join >= 0:
            self._branch_failed(scope, node.join, failure)
        else:
            self._scope_failed(scope, failure)

    def _branch_failed(self, scope: ScopeRun, index: int, failure: Failure) -> None:
        if scope.node_runs[index] is None:
            scope.errors.setdefault(index, []).append(failure)
            if scope.plan.nodes[index].behaviour.errors == "fail-fast":
                self._decide_join(scope, index)
            else:
                self._joins[id(scope), index] = scope

    def _scope_failed(self, scope: ScopeRun, failure: Failure) -> None:
        self._cancel_scope(scope)
        if scope.owner is None:
            self._finish_failed(failure)
        elif not self._finally_block_ended(scope):
            self.apply(scope.owner, self._containers.body_failed(scope.owner, scope, failure))

    def _scope_done(self, scope: ScopeRun) -> None:
        if scope.owner is None:
            self._finish(GraphResult(self._output))
        elif not self._finally_block_ended(scope):
            after = self._after(scope)
            self.apply(scope.owner, self._containers.body_done(scope.owner, scope, after))

    def _after(self, scope: ScopeRun) -> Variables:
        """The variables at the end of a body: its last nodes come together as at a join."""
        arrivals = []
        for index, node_run in enumerate(scope.node_runs):
            if node_run is None or node_run.status is not NodeStatus.COMPLETED:
                continue
            if not any(edge.handle in node_run.handles for edge in node_run.node.outs):
                arrivals.append(Arrival(node_run.node.id, node_run.after, index))
        if not arrivals:
            return scope.base
        return self._merge(scope.base, arrivals, scope.prefix.rstrip("/"))

    # The end of the run

    def _finish_failed(self, failure: Failure) -> None:
        if self._ending is None:
            self._finish(GraphResult(None, failure))

    def _finish(self, ending: GraphResult) -> None:
        self._ending = ending
        assert self._root is not None
        self._cancel_scope(self._root)
        self._end_if_clean()

    def _end_if_clean(self) -> None:
        if self._ending is not None and not self._finally_blocks:
            self.result = self._ending

    # Cancelling

    def cancel(self) -> None:
        """GR-C4: stop everything except finally blocks; `result` is set when those are over."""
        assert self._root is not None
        self._ending = GraphResult(None)
        self._finally_blocks.interrupting = True
        self._cancel_finally_blocks()
        self._cancel_scope(self._root)
        self._finally_blocks.interrupting = False
        self._end_if_clean()
        self._pump()

    def abandon(self) -> None:
        """GR-C5, or the run was ended from outside: settle everything at once, without finally blocks."""
        if self.result is None and self._root is not None:
            self._finally_blocks.off = True
            self.cancel()

    def _cancel_scope(self, scope: ScopeRun) -> None:
        """Cancel every node that has not settled; nothing leaves the scope."""
        scope.closed = True
        if scope.open or scope.clocks:
            for index in range(len(scope.node_runs)):
                self._cancel_node(scope, index)

    def _cancel_node(self, scope: ScopeRun, index: int) -> None:
        node_run = scope.node_runs[index]
        clock = scope.clocks.pop(index, None)
        if clock is not None:
            self._withdraw(clock)
        if node_run is None:
            # It never began, so it settles without a row of its own in the log.
            node_run = self._add(scope, scope.plan.nodes[index], scope.base)
        elif node_run.status in SETTLED:
            return
        else:
            if node_run.node.ending is not None:
                self._cancel_try(node_run)
            else:
                self._stop(node_run)
            self._mark(MarkerKind.CANCELLED, node_run.path)
        self._settle(node_run, NodeStatus.CANCELLED)

    def _stop(self, node_run: NodeRun) -> None:
        """Withdraw everything the node run waits for, in its bodies too."""
        for command in node_run.commands:
            self._withdraw(command)
        if node_run.body is not None and not node_run.body.closed:
            self._cancel_scope(node_run.body)
        if node_run.loop is not None:
            for scope in list(node_run.loop.running.values()):
                self._cancel_scope(scope)

    # Finally blocks

    def _cancel_try(self, node_run: NodeRun) -> None:
        """Cancel a try that has a finally: the finally runs, or continues, by itself."""
        blocks, begun = self._finally_blocks, in_finally(node_run)
        if blocks.detach(node_run):
            self._stop(node_run)
            return
        before = blocks.scopes()
        self._stop(node_run)
        if not (blocks.off or begun):
            scope = blocks.add(cancelled_finally(node_run), before)
            if scope is not None:
                self._open(scope)

    def _finally_block_ended(self, scope: ScopeRun) -> bool:
        """True if the scope was the finally of a cancelled try: its container is settled already."""
        end = self._finally_blocks.end(scope)
        if end is None:
            return False
        if end.next is not None:
            self._open(end.next)
        self._end_if_clean()
        return True

    def _cancel_finally_blocks(self) -> None:
        for scope in self._finally_blocks.clear():
            self._cancel_scope(scope)


def _open_scopes(roots: list[ScopeRun]) -> Iterator[ScopeRun]:
    waiting = roots
    while waiting:
        scope = waiting.pop(0)
        if scope.closed:
            continue
        yield scope
        for node_run in scope.node_runs:
            if node_run is None or node_run.status in SETTLED:
                continue
            if node_run.body is not None:
                waiting.append(node_run.body)
            if node_run.loop is not None:
                waiting.extend(node_run.loop.running.values())
