"""Simulated: a graph driven without engine or store: facts in virtual time, straight to the frontier.

For property tests that want thousands of graphs, and to see the order of facts. The same frontier
runs on the kernel; only who answers it differs.
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
        self.notes: list[Any] = []
        self.steps: dict[str, str] = {}
        self.settled: list[str] = []
        self._observe = observe
        self._queue: list[tuple[float, int, Command, str, Any]] = []
        self._count = 0
        self._asks: dict[str, Command] = {}
        self.frontier = Frontier(
            plan, run={"id": "run", "workflow": plan.name}, clock=lambda path: self.now, observe=self._seen
        )

    def run(self) -> Frontier:
        self.frontier.begin(self.case.input)
        self._act()
        while self.frontier.end is None and self._queue:
            at, _, ask, how, value = heapq.heappop(self._queue)
            if ask.done:
                continue
            self.now = at
            self.feed(ask, how, value)
        return self.frontier

    def replay(self, facts: list[FrontierFact]) -> None:
        """Feed recorded facts instead of living through them."""
        self.frontier.begin(self.case.input)
        self._act(live=False)
        for path, how, value in facts:
            self.feed(self._asks[path], how, value, live=False)

    def feed(self, ask: Command, how: str, value: Any, *, live: bool = True) -> None:
        self.facts.append((ask.path, how, value))
        if how == "answer":
            self.frontier.answer(ask, value)
        else:
            self.frontier.fail(ask, value)
        self._act(live=live)

    def _act(self, *, live: bool = True) -> None:
        for action in self.frontier.take_actions():
            if isinstance(action, Marker):
                self.notes.append(action)
            elif isinstance(action, Command) and not action.done:
                self._asks[action.path] = action
                if live:
                    self._answer(action)

    def _answer(self, ask: Command) -> None:
        if ask.purpose is CommandKind.WORK:
            self._work(ask)
        elif isinstance(ask.data, EventRequest | ApprovalRequest):
            if ask.data.timeout is not None:
                assert ask.step is not None
                late = Failure(WAIT_TIMEOUT, "late", ask.step.node.id, ask.path)
                self._later(ask.data.timeout, ask, "fail", late)
        elif isinstance(ask.data, PollRequest):
            self._later(ask.data.seconds, ask, "answer", None)
        elif ask.purpose not in (CommandKind.CHILD, CommandKind.MAILBOX):
            self._later(ask.data, ask, "answer", None)

    def _work(self, ask: Command) -> None:
        assert ask.step is not None
        node = ask.step.node
        policy = node.behaviour.spec.retry
        elapsed, attempt = 0.0, 0
        while True:
            attempt += 1
            self.script.starts[node.id] += 1
            line = self.script.line(node.id, ask.path, attempt)
            elapsed += line.get("dur", 0) / 1000
            code = line.get("fail")
            if not code:
                self._later(elapsed, ask, *self._came_out(line, ask))
                return
            wait = policy.wait_after(attempt, NodeError(code), 0.0)
            if wait is None:
                self._later(elapsed, ask, "fail", Failure(code, code, node.id, ask.path, attempt))
                return
            elapsed += wait

    def _came_out(self, line: dict[str, Any], ask: Command) -> tuple[str, Any]:
        assert ask.step is not None
        try:
            output = self.script.output(line, ask.data[0][0])
        except ExpressionError as error:
            return "fail", Failure(error.code, error.message, ask.step.node.id, ask.path)
        return "answer", msgspec.json.encode({"output": output, "handle": line.get("handle", "out")})

    def _later(self, seconds: float, ask: Command, how: str, value: Any) -> None:
        self._count += 1
        heapq.heappush(self._queue, (round(self.now + seconds, 6), self._count, ask, how, value))

    def _seen(self, step: NodeRun) -> None:
        self.steps[step.path] = step.status
        if step.status not in ("running", "waiting"):
            self.settled.append(step.path)
        if self._observe is not None:
            self._observe(step)
