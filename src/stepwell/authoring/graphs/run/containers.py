"""Containers: try, retry and loop nodes, and what the end of a body means to them."""

from __future__ import annotations

from collections.abc import Callable

from stepwell.authoring.graphs.nodes.containers import RetryBody
from stepwell.authoring.graphs.nodes.node_type import NodeOutcome, Role
from stepwell.authoring.graphs.run.conversations import Conversations
from stepwell.authoring.graphs.run.evaluator import Evaluator
from stepwell.authoring.graphs.run.finally_blocks import in_finally
from stepwell.authoring.graphs.run.loops import Loops
from stepwell.authoring.graphs.run.state import (
    STOP,
    Command,
    CommandKind,
    Effect,
    Failure,
    NodeRun,
    ScopeRun,
    completed,
    failed,
    failure_of,
)
from stepwell.authoring.graphs.run.variables import Variables
from stepwell.errors import StepwellError


class Containers:
    def __init__(self, evaluator: Evaluator, recorded: Callable[[str], bool]) -> None:
        self._loops = Loops(evaluator)
        self.conversations = Conversations(evaluator, recorded)

    def start(self, node_run: NodeRun) -> list[Effect]:
        effects: list[Effect] = []
        limit = node_run.node.data.timeout_ms
        if limit is not None:
            path = f"{node_run.path}@timeout"
            effects.append(Command(CommandKind.DEADLINE, path, node_run, limit / 1000))
        asks = node_run.node.role is Role.CONVERSATION
        if node_run.node.type != "loop" and not asks:
            return [*effects, _body(node_run)]
        try:
            return effects + (self.conversations if asks else self._loops).start(node_run)
        except StepwellError as error:
            return effects + failed(node_run, failure_of(error, node_run))

    def try_again(self, node_run: NodeRun) -> list[Effect]:
        node_run.attempt += 1
        return [_body(node_run)]

    def body_done(self, node_run: NodeRun, scope: ScopeRun, after: Variables) -> list[Effect]:
        if node_run.node.role is Role.CONVERSATION:
            return self.conversations.tool_done(node_run, scope)
        if node_run.node.type == "loop":
            return self._loops.iteration_done(node_run, scope, after)
        node_run.body = None
        node_run.variables = after  # GR-K2: successors of the container see what its body wrote
        if scope.plan is node_run.node.ending:
            return _conclude(node_run, node_run.pending)
        if node_run.node.ending is not None:
            return [_finally(node_run, None)]
        return _conclude(node_run, None)

    def body_failed(self, node_run: NodeRun, scope: ScopeRun, failure: Failure) -> list[Effect]:
        if node_run.node.role is Role.CONVERSATION:
            return self.conversations.tool_failed(node_run, scope, failure)
        if node_run.node.type == "loop":
            return self._loops.iteration_failed(node_run, scope, failure)
        node_run.body = None
        if scope.plan is node_run.node.ending:
            return failed(node_run, failure)  # replaces the failure of the body
        if node_run.node.ending is not None:
            return [_finally(node_run, failure)]
        return _conclude(node_run, failure)

    def timed_out(self, node_run: NodeRun) -> list[Effect]:
        """The container's deadline passed. A try catches that too; a retry does not try again."""
        what = "the conversation" if node_run.node.role is Role.CONVERSATION else "the body"
        failure = Failure("STEP_TIMED_OUT", f"{what} took too long", node_run.node.id, node_run.path)
        if in_finally(node_run):
            node_run.pending = node_run.pending or failure  # a finally is not stopped halfway
            return []
        if node_run.node.ending is not None:
            return [STOP, _finally(node_run, failure)]
        if "catch" in node_run.node.connected:
            return [STOP, *_catch(node_run, failure)]
        return failed(node_run, failure)


def cancelled_finally(node_run: NodeRun) -> ScopeRun:
    """The finally of a try that is cancelled."""
    failure = Failure("CANCELLED", "the try was cancelled", node_run.node.id, node_run.path)
    return _finally_scope(node_run, failure)


def _body(node_run: NodeRun) -> ScopeRun:
    """GR-Y3: each attempt of a retry has a scope of its own."""
    plan = node_run.node.body
    assert plan is not None
    mark = f"#{node_run.attempt}" if node_run.node.type == "retry" else ""
    return ScopeRun(plan, f"{node_run.path}{mark}/", node_run.variables, node_run, node_run.scope.loop)


def _finally(node_run: NodeRun, failure: Failure | None) -> ScopeRun:
    """A try's finally: it runs whichever way the body ended."""
    node_run.pending = failure
    return _finally_scope(node_run, failure)


def _finally_scope(node_run: NodeRun, failure: Failure | None) -> ScopeRun:
    plan = node_run.node.ending
    assert plan is not None
    if failure is not None:
        error = {"error": failure.as_context()}
        node_run.variables = node_run.variables.written(node_run.number, None, None, error)
    return ScopeRun(plan, f"{node_run.path}/", node_run.variables, node_run, node_run.scope.loop)


def _conclude(node_run: NodeRun, failure: Failure | None) -> list[Effect]:
    kind = node_run.node.type
    if failure is None:
        output = {"attempts": node_run.attempt} if kind == "retry" else None
        return [STOP, *completed(node_run, NodeOutcome(output=output))]
    if kind == "try" and "catch" in node_run.node.connected:
        return [STOP, *_catch(node_run, failure)]
    if kind == "retry" and node_run.attempt < node_run.node.behaviour.attempts and not failure.config:
        policy: RetryBody = node_run.node.behaviour
        path = f"{node_run.path}#{node_run.attempt}@delay"
        return [Command(CommandKind.BACKOFF, path, node_run, policy.wait_after(node_run.attempt))]
    return failed(node_run, failure)


def _catch(node_run: NodeRun, failure: Failure) -> list[Effect]:
    error = failure.as_context()
    return completed(node_run, NodeOutcome(("catch",), {"error": error}, {"error": error}))
