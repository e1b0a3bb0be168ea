"""NodeStarter: how a node of each role begins, and what the answer to its command means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stepwell.authoring.graphs.errors import NodeError
from stepwell.authoring.graphs.nodes.node_type import DONE, NodeOutcome, Role
from stepwell.authoring.graphs.nodes.waits import (
    ApprovalRequest,
    EventRequest,
    LookRequest,
    PollRequest,
    TimerRequest,
)
from stepwell.authoring.graphs.run.containers import Containers
from stepwell.authoring.graphs.run.evaluator import Evaluator
from stepwell.authoring.graphs.run.state import (
    STOP,
    WORK,
    Command,
    CommandKind,
    Effect,
    Failure,
    Marker,
    MarkerKind,
    NodeRun,
    NodeStatus,
    completed,
    failed,
    failure_of,
)
from stepwell.errors import StepwellError

WAIT_TIMEOUT = "WAIT_TIMEOUT"


class NodeStarter:
    def __init__(
        self,
        evaluator: Evaluator,
        containers: Containers,
        *,
        recorded: Callable[[str], bool],
        test: bool,
        wait_limit: float | None,
    ) -> None:
        self._evaluator = evaluator
        self._containers = containers
        self._recorded = recorded  # whether the log has the result of a path: then it needs no input
        self._test = test  # use pinned data
        self._wait_limit = wait_limit  # seconds, for waits without a timeout of their own

    # Beginning

    def start(self, node_run: NodeRun) -> list[Effect]:
        node = node_run.node
        if node.passes:
            return completed(node_run, DONE)
        try:
            if self._test and node.data.is_pinned:
                return self._pinned(node_run)
            if node.role is Role.WORK:
                return self._work(node_run)
            if node.role is Role.PURE:
                return self._pure(node_run)
            if node.role is Role.WAIT:
                return self._wait(node_run)
            if node.role is Role.CHILD:
                return self._call(node_run)
            return self._containers.start(node_run)
        except StepwellError as error:
            return failed(node_run, failure_of(error, node_run))

    def _pinned(self, node_run: NodeRun) -> list[Effect]:
        """In a test run a node gives its pinned data, and nothing of it is executed."""
        pinned = node_run.node.data.pinned
        outcome_of = getattr(node_run.node.behaviour, "pinned", None)
        outcome: NodeOutcome = NodeOutcome(output=pinned) if outcome_of is None else outcome_of(pinned)
        data = {"output": outcome.output, "handles": list(outcome.handles), "pinned": True}
        return [Marker(MarkerKind.COMPLETED, node_run.path, data), outcome]

    def _pure(self, node_run: NodeRun) -> list[Effect]:
        node = node_run.node
        scope, now = self._evaluator.scope_of(node_run), self._evaluator.now_of(node_run)
        return completed(node_run, node.behaviour.settle(scope, now, node.connected))

    def _work(self, node_run: NodeRun) -> list[Effect]:
        arguments = None
        if not self._recorded(node_run.path):  # replay renders nothing again
            scope, now = self._evaluator.scope_of(node_run), self._evaluator.now_of(node_run)
            arguments = node_run.node.behaviour.prepare(scope, now)
        return [Command(WORK, node_run.path, node_run, arguments)]

    def _wait(self, node_run: NodeRun) -> list[Effect]:
        node_run.status = NodeStatus.WAITING
        path = node_run.path
        scope, now = self._evaluator.scope_of(node_run), self._evaluator.now_of(node_run)
        request = node_run.node.behaviour.request(scope, now)
        if isinstance(request, TimerRequest):
            limit = node_run.node.data.timeout_ms
            if limit is not None and limit / 1000 < request.seconds:  # the timer cannot fire in time
                return [Command(CommandKind.DEADLINE, f"{path}@timeout", node_run, limit / 1000)]
            return [Command(CommandKind.TIMER, path, node_run, request.seconds)]
        timeout = request.timeout if request.timeout is not None else self._wait_limit
        if isinstance(request, LookRequest):
            return self._look(node_run, timeout)
        if isinstance(request, EventRequest):
            event = EventRequest(request.name, request.key, timeout)
            return [Command(CommandKind.EVENT, path, node_run, event)]
        if isinstance(request, ApprovalRequest):
            return [Command(CommandKind.APPROVAL, path, node_run, replace(request, timeout=timeout))]
        if timeout is None:
            return self._poll(node_run, request)
        deadline = Command(CommandKind.DEADLINE, f"{path}@timeout", node_run, timeout)
        return [deadline, *self._poll(node_run, request)]

    def _look(self, node_run: NodeRun, timeout: float | None) -> list[Effect]:
        """Poll: the worker looks again and again, and only the last look is in the log."""
        commands: list[Effect] = list(self._work(node_run))
        if timeout is None:
            return commands
        return [Command(CommandKind.DEADLINE, f"{node_run.path}@timeout", node_run, timeout), *commands]

    def _poll(self, node_run: NodeRun, request: PollRequest) -> list[Effect]:
        """Evaluate the condition. An error in it fails the node at once instead of polling forever."""
        node_run.attempt += 1
        mark = f"@poll#{node_run.attempt - 1}"
        try:
            scope = self._evaluator.scope_of(node_run)
            holds = request.condition.truth(scope, self._evaluator.now_of(node_run, mark))
        except StepwellError as error:
            return failed(node_run, failure_of(error, node_run))
        if holds:
            return [STOP, node_run.node.behaviour.answered(None)]
        return [Command(CommandKind.POLL, node_run.path + mark, node_run, request)]

    # Called workflows

    def _call(self, node_run: NodeRun) -> list[Effect]:
        """Each attempt is another run, with a deadline of its own."""
        path = node_run.path if node_run.attempt == 1 else f"{node_run.path}#{node_run.attempt}"
        child, input = node_run.node.behaviour, None
        if not self._recorded(path):
            input = child.input(self._evaluator.scope_of(node_run), self._evaluator.now_of(node_run))
        command = Command(CommandKind.CHILD, path, node_run, input)
        if child.timeout is None:
            return [command]
        return [Command(CommandKind.DEADLINE, f"{path}@timeout", node_run, child.timeout), command]

    def _call_again(self, node_run: NodeRun) -> list[Effect]:
        node_run.attempt += 1
        try:
            return self._call(node_run)
        except StepwellError as error:
            return failed(node_run, failure_of(error, node_run))

    # Answers

    def answered(self, command: Command, value: Any) -> list[Effect]:
        """A command of a node run was answered: a result, a decision, an event; None for a timer."""
        kind, node_run = command.kind, command.node_run
        assert node_run is not None
        behaviour = node_run.node.behaviour
        if kind is WORK:
            outcome = behaviour.outcome(value)
            if node_run.node.role is Role.WAIT:
                return [STOP, outcome]
            if outcome.delay <= 0:
                return [outcome]
            node_run.outcome = outcome
            return [Command(CommandKind.HOLD, f"{node_run.path}@delay", node_run, outcome.delay)]
        if kind is CommandKind.BACKOFF:
            if node_run.node.role is Role.CHILD:
                return self._call_again(node_run)
            return self._containers.try_again(node_run)
        if kind is CommandKind.DEADLINE:
            return self._timed_out(node_run)
        if kind is CommandKind.HOLD:
            assert node_run.outcome is not None
            return [node_run.outcome]
        if kind is CommandKind.POLL:
            return self._poll(node_run, command.data)
        if kind is CommandKind.CHILD:
            return [STOP, behaviour.outcome(value)]
        if kind is CommandKind.MODEL:
            return self._containers.conversations.replied(node_run, value)
        return [behaviour.answered(value)]

    def _timed_out(self, node_run: NodeRun) -> list[Effect]:
        if node_run.node.role.has_body:
            return self._containers.timed_out(node_run)
        if node_run.node.role is Role.CHILD:
            message = "the called run took too long"
            return _call_failed(node_run, Failure("STEP_TIMED_OUT", message, node_run.node.id, node_run.path))
        return [STOP, *_late(node_run)]

    def failed(self, command: Command, failure: Failure) -> list[Effect]:
        """A command of a node run failed for good."""
        node_run = command.node_run
        assert node_run is not None, f"{command} cannot fail"
        if failure.code == WAIT_TIMEOUT and node_run.node.role is Role.WAIT:
            return _late(node_run)
        if command.kind is CommandKind.CHILD:
            return _call_failed(node_run, failure)
        if command.kind is CommandKind.WORK and node_run.node.role is Role.WAIT:
            return [STOP, failure]
        return [failure]


def _late(node_run: NodeRun) -> list[Effect]:
    """GR-P2: take the timeout handle if it is connected; otherwise fail."""
    if "timeout" in node_run.node.connected:
        return [NodeOutcome(("timeout",), {"timedOut": True})]
    return [Failure(WAIT_TIMEOUT, "the wait timed out", node_run.node.id, node_run.path)]


def _call_failed(node_run: NodeRun, failure: Failure) -> list[Effect]:
    failure = failure._replace(attempt=node_run.attempt)
    error = NodeError(failure.code, failure.message, config=failure.config)
    wait = node_run.node.behaviour.retry.wait_after(node_run.attempt, error, 0.5)
    if wait is None:
        return [STOP, failure]
    path = f"{node_run.path}#{node_run.attempt}@delay"
    return [STOP, Command(CommandKind.BACKOFF, path, node_run, wait)]


def called_code(code: str) -> str:
    """GC-K12: the code that graphs route by when the run that a node called was cancelled."""
    return "SUBWORKFLOW_CANCELLED" if code == "CHILD_CANCELLED" else code
