"""Containers: try, retry and loop nodes, and what the end of a body means to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.authoring.graphs.nodes.containers import RetryBody
from stepwell.authoring.graphs.nodes.node_type import NodeOutcome
from stepwell.authoring.graphs.run.state import (
    Command,
    CommandKind,
    Failure,
    MarkerKind,
    NodeRun,
    NodeStatus,
    ScopeRun,
)
from stepwell.authoring.graphs.run.variables import Variables

if TYPE_CHECKING:
    from stepwell.authoring.graphs.run.frontier import Frontier


class Containers:
    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier

    def start(self, step: NodeRun) -> None:
        limit = step.node.data.timeout_ms
        if limit is not None:
            self._frontier.ask(Command(CommandKind.GIVE_UP, f"{step.path}@timeout", step, limit / 1000))
        if step.node.type == "loop":
            self._frontier.loops.start(step)
        else:
            self._open_body(step)

    def _open_body(self, step: NodeRun) -> None:
        """GR-Y3: each attempt of a retry has a scope of its own."""
        plan = step.node.body
        assert plan is not None
        mark = f"#{step.attempt}" if step.node.type == "retry" else ""
        scope = ScopeRun(plan, f"{step.path}{mark}/", step.context, step, step.scope.loop)
        step.body = scope
        self._frontier.open(scope)

    def body_done(self, step: NodeRun, scope: ScopeRun, behind: Variables) -> None:
        if step.node.type == "loop":
            self._frontier.loops.iteration_done(step, scope, behind)
            return
        step.body = None
        step.context = behind  # GR-K2: what the body wrote is visible behind the container
        if scope.plan is step.node.ending:
            self._conclude(step, step.pending)
        elif step.node.ending is not None:
            self._open_ending(step, None)
        else:
            self._conclude(step, None)

    def body_failed(self, step: NodeRun, scope: ScopeRun, failure: Failure) -> None:
        if step.node.type == "loop":
            self._frontier.loops.iteration_failed(step, scope, failure)
            return
        step.body = None
        if scope.plan is step.node.ending:
            self.fail(step, failure)  # also in place of what the body failed with
        elif step.node.ending is not None:
            self._open_ending(step, failure)
        else:
            self._conclude(step, failure)

    def _open_ending(self, step: NodeRun, failure: Failure | None) -> None:
        """A try's finally: it runs whichever way the body ended."""
        step.pending = failure
        step.body = self._ending(step, failure)
        self._frontier.open(step.body)

    def _ending(self, step: NodeRun, failure: Failure | None) -> ScopeRun:
        plan = step.node.ending
        assert plan is not None
        if failure is not None:
            step.context = step.context.written(step.number, None, None, {"error": failure.as_context()})
        return ScopeRun(plan, f"{step.path}/", step.context, step, step.scope.loop)

    def ending_of(self, step: NodeRun) -> ScopeRun:
        """The finally of a try that is cancelled."""
        told = Failure("CANCELLED", "the try was cancelled", step.node.id, step.path)
        return self._ending(step, told)

    def _conclude(self, step: NodeRun, failure: Failure | None) -> None:
        kind = step.node.type
        if failure is None:
            output = {"attempts": step.attempt} if kind == "retry" else None
            self._settle(step, NodeOutcome(output=output))
        elif kind == "try" and "catch" in step.node.connected:
            self._catch(step, failure)
        elif kind == "retry" and step.attempt < step.node.behaviour.attempts and not failure.config:
            policy: RetryBody = step.node.behaviour
            path = f"{step.path}#{step.attempt}@delay"
            self._frontier.ask(Command(CommandKind.BACKOFF, path, step, policy.wait_after(step.attempt)))
        else:
            self.fail(step, failure)

    def ran_out(self, step: NodeRun, failure: Failure) -> None:
        """Its own time is over: a try catches that too, nobody tries again."""
        if step.body is not None and step.body.plan is step.node.ending:
            step.pending = step.pending or failure  # what cleans up is not stopped half-way
            return
        self._frontier.stop(step)
        if step.node.ending is not None:
            step.body = None
            self._open_ending(step, failure)
        elif "catch" in step.node.connected:
            self._catch(step, failure)
        else:
            self.fail(step, failure)

    def _catch(self, step: NodeRun, failure: Failure) -> None:
        told = failure.as_context()
        self._settle(step, NodeOutcome(("catch",), {"error": told}, {"error": told}))

    def try_again(self, step: NodeRun) -> None:
        step.attempt += 1
        self._open_body(step)

    def fail(self, step: NodeRun, failure: Failure) -> None:
        self._frontier.stop(step)
        self._frontier.note(MarkerKind.FAILED, step.path, failure)
        self._frontier.failed(step, failure)

    def _settle(self, step: NodeRun, outcome: NodeOutcome) -> None:
        self._frontier.stop(step)
        told = {"output": outcome.output, "handles": list(outcome.handles)}
        self._frontier.note(MarkerKind.COMPLETED, step.path, told)
        assert step.status is NodeStatus.RUNNING
        self._frontier.complete(step, outcome)
