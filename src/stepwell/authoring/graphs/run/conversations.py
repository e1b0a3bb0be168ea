"""Conversations: how a graph asks a model in turns and runs the tools that the model calls.

Each request is a step at `triage@model#1`, `#2` ...; the first call of a tool runs in the scope
`triage[0]`. Several tools run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stepwell.authoring.graphs.nodes.ai import AiWork
from stepwell.authoring.graphs.nodes.node_type import NodeOutcome, Now
from stepwell.authoring.graphs.run.evaluator import Evaluator
from stepwell.authoring.graphs.run.state import (
    STOP,
    Command,
    CommandKind,
    Effect,
    Failure,
    NodeRun,
    NodeStatus,
    ScopeRun,
    completed,
    failed,
    failure_of,
)
from stepwell.domain.conversation import (
    Answered,
    CallTools,
    GivenUp,
    Next,
    Reply,
    ToolCall,
    ToolResult,
)
from stepwell.errors import StepwellError


class ToolRuns:
    """A conversation and its tools that are running."""

    __slots__ = ("calls", "conversation", "count", "now", "opening", "results", "running", "scope")

    def __init__(self, work: AiWork, scope: Mapping[str, Any], now: Now) -> None:
        self.conversation = work.conversation()
        self.scope = scope  # values of its templates, as they were when the node began
        self.now = now
        self.opening: dict[str, Any] | None = None  # rendered when it is first needed
        self.count = 0  # calls so far
        self.running: dict[int, ScopeRun] = {}
        self.calls: dict[int, ToolCall] = {}
        self.results: dict[int, ToolResult] = {}


class Conversations:
    def __init__(self, evaluator: Evaluator, recorded: Callable[[str], bool]) -> None:
        self._evaluator = evaluator
        self._recorded = recorded  # whether the log has the result of a path, so that no input is needed

    def start(self, node_run: NodeRun) -> list[Effect]:
        scope, now = self._evaluator.scope_of(node_run), self._evaluator.now_of(node_run)
        node_run.loop = ToolRuns(node_run.node.behaviour, scope, now)
        return self._ask(node_run)

    def _ask(self, node_run: NodeRun) -> list[Effect]:
        """Ask the model for its next turn."""
        runs: ToolRuns = node_run.loop
        turn = runs.conversation.turns + 1
        path = f"{node_run.path}@model#{turn}"
        arguments: tuple[Any, Any] | None = None
        if not self._recorded(path):
            if runs.opening is None:
                runs.opening = node_run.node.behaviour.opening(runs.scope, runs.now)
            messages = [*runs.opening["messages"], *runs.conversation.messages]
            arguments = (({**runs.opening, "messages": messages, "turn": turn},), {})
        return [Command(CommandKind.MODEL, path, node_run, arguments)]

    def replied(self, node_run: NodeRun, data: bytes | msgspec.Raw) -> list[Effect]:
        runs: ToolRuns = node_run.loop
        return self._follow(node_run, runs.conversation.take_reply(msgspec.json.decode(data, type=Reply)))

    def _follow(self, node_run: NodeRun, after: Next) -> list[Effect]:
        runs: ToolRuns = node_run.loop
        if isinstance(after, Answered):
            return [STOP, *completed(node_run, NodeOutcome(output=runs.conversation.summary(after.value)))]
        if isinstance(after, GivenUp):
            node = node_run.node.id
            failure = Failure(after.code, after.message, node, node_run.path, hint=after.hint)
            return failed(node_run, failure)
        if isinstance(after, CallTools):
            runs.calls.clear()
            runs.results.clear()
            return [self._call(node_run, runs, call) for call in after.calls]
        return self._ask_or_fail(node_run)

    def _ask_or_fail(self, node_run: NodeRun) -> list[Effect]:
        try:
            return self._ask(node_run)
        except StepwellError as error:
            return failed(node_run, failure_of(error, node_run))

    # Tools

    def _call(self, node_run: NodeRun, runs: ToolRuns, call: ToolCall) -> ScopeRun:
        """GR-K2: what a tool writes is its own; the model gets its result."""
        index, runs.count = runs.count, runs.count + 1
        tool = {"name": call.name, "input": call.input}
        variables = node_run.variables.written(node_run.number, None, None, {"tool": tool})
        plan = node_run.node.tools[call.name]
        scope = ScopeRun(plan, f"{node_run.path}[{index}]/", variables, node_run, node_run.scope.loop)
        runs.running[index], runs.calls[index] = scope, call
        return scope

    def tool_done(self, node_run: NodeRun, scope: ScopeRun) -> list[Effect]:
        return self._ended(node_run, scope, _result_of(scope), failed=False)

    def tool_failed(self, node_run: NodeRun, scope: ScopeRun, failure: Failure) -> list[Effect]:
        """Tell the model, unless an author must fix something or wants the node to fail."""
        if failure.config or not node_run.node.behaviour.tells:
            return failed(node_run, failure)
        return self._ended(node_run, scope, f"{failure.code}: {failure.message}", failed=True)

    def _ended(self, node_run: NodeRun, scope: ScopeRun, value: Any, *, failed: bool) -> list[Effect]:
        runs: ToolRuns = node_run.loop
        index = next(index for index, one in runs.running.items() if one is scope)
        del runs.running[index]
        runs.results[index] = ToolResult(runs.calls[index], value, failed)
        if runs.running:
            return []
        runs.conversation.take_results([runs.results[at] for at in sorted(runs.results)])
        return self._ask_or_fail(node_run)


def _result_of(scope: ScopeRun) -> Any:
    """Return the output of the node that ended the scope, or the outputs of several by their ids."""
    last = {
        node_run.node.id: node_run.output
        for node_run in scope.node_runs
        if node_run is not None
        and node_run.status is NodeStatus.COMPLETED
        and not any(edge.handle in node_run.handles for edge in node_run.node.outs)
    }
    return next(iter(last.values())) if len(last) == 1 else last
