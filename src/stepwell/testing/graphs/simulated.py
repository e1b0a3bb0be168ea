"""Simulated: drives a graph without an engine or store, feeding facts in virtual time to the frontier.

For property tests over thousands of graphs, and to see the order of facts. The kernel runs the same
frontier; only the source of the answers differs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import msgspec

from stepwell.authoring.graphs.build.plan import GraphPlan
from stepwell.authoring.graphs.errors import NodeError
from stepwell.authoring.graphs.nodes.waits import ApprovalRequest, EventRequest, PollRequest
from stepwell.authoring.graphs.run.frontier import Frontier
from stepwell.authoring.graphs.run.node_start import WAIT_TIMEOUT
from stepwell.authoring.graphs.run.state import Command, CommandKind, Failure, Marker, NodeRun
from stepwell.errors import ExpressionError
from stepwell.testing.graphs.cases import Case, Script

FrontierFact = tuple[str, str, Any]  # path, answer | fail, value


class Simulated:
    """One run of one case."""

    def __init__(self, plan: GraphPlan, case: Case, observe: Callable[[NodeRun], None] | None = None) -> None:
        self.case = case
        self.script = Script(case)
        self.now = 0.0
        self.facts: list[FrontierFact] = []
        self.markers: list[Any] = []
        self.steps: dict[str, str] = {}
        self.settled: list[str] = []
        self._observe = observe
        self._queue: list[tuple[float, int, Command, str, Any]] = []
        self._count = 0
        self._commands: dict[str, Command] = {}
        self.frontier = Frontier(
            plan, run={"id": "run", "workflow": plan.name}, clock=lambda path: self.now, observe=self._seen
        )

    def run(self) -> Frontier:
        self.frontier.begin(self.case.input)
        self._act()
        while self.frontier.result is None and self._queue:
            at, _, command, how, value = heapq.heappop(self._queue)
            if command.done:
                continue
            self.now = at
            self.feed(command, how, value)
        return self.frontier

    def replay(self, facts: list[FrontierFact]) -> None:
        """Feed recorded facts instead of running the case."""
        self.frontier.begin(self.case.input)
        self._act(live=False)
        for path, how, value in facts:
            self.feed(self._commands[path], how, value, live=False)

    def feed(self, command: Command, how: str, value: Any, *, live: bool = True) -> None:
        self.facts.append((command.path, how, value))
        if how == "answer":
            self.frontier.answer(command, value)
        else:
            self.frontier.fail(command, value)
        self._act(live=live)

    def _act(self, *, live: bool = True) -> None:
        for action in self.frontier.take_actions():
            if isinstance(action, Marker):
                self.markers.append(action)
            elif isinstance(action, Command) and not action.done:
                self._commands[action.path] = action
                if live:
                    self._answer(action)

    def _answer(self, command: Command) -> None:
        if command.kind is CommandKind.WORK:
            self._work(command)
        elif isinstance(command.data, EventRequest | ApprovalRequest):
            if command.data.timeout is not None:
                assert command.node_run is not None
                late = Failure(WAIT_TIMEOUT, "late", command.node_run.node.id, command.path)
                self._later(command.data.timeout, command, "fail", late)
        elif isinstance(command.data, PollRequest):
            self._later(command.data.seconds, command, "answer", None)
        elif command.kind not in (CommandKind.CHILD, CommandKind.MAILBOX):
            self._later(command.data, command, "answer", None)

    def _work(self, command: Command) -> None:
        assert command.node_run is not None
        node = command.node_run.node
        policy = node.behaviour.spec.retry
        elapsed, attempt = 0.0, 0
        while True:
            attempt += 1
            self.script.starts[node.id] += 1
            line = self.script.line(node.id, command.path, attempt)
            elapsed += line.get("dur", 0) / 1000
            code = line.get("fail")
            if not code:
                self._later(elapsed, command, *self._came_out(line, command))
                return
            wait = policy.wait_after(attempt, NodeError(code), 0.0)
            if wait is None:
                self._later(elapsed, command, "fail", Failure(code, code, node.id, command.path, attempt))
                return
            elapsed += wait

    def _came_out(self, line: dict[str, Any], command: Command) -> tuple[str, Any]:
        assert command.node_run is not None
        try:
            output = self.script.output(line, command.data[0][0])
        except ExpressionError as error:
            return "fail", Failure(error.code, error.message, command.node_run.node.id, command.path)
        return "answer", msgspec.json.encode({"output": output, "handle": line.get("handle", "out")})

    def _later(self, seconds: float, command: Command, how: str, value: Any) -> None:
        self._count += 1
        heapq.heappush(self._queue, (round(self.now + seconds, 6), self._count, command, how, value))

    def _seen(self, node_run: NodeRun) -> None:
        self.steps[node_run.path] = node_run.status
        if node_run.status not in ("running", "waiting"):
            self.settled.append(node_run.path)
        if self._observe is not None:
            self._observe(node_run)
