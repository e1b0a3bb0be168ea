"""Loops: a body for each item, one after the other or several at once. Each iteration has its own scope."""

from __future__ import annotations

from typing import Any

from stepwell.authoring.graphs.errors import NodeError
from stepwell.authoring.graphs.nodes.containers import Loop
from stepwell.authoring.graphs.nodes.node_type import NodeOutcome
from stepwell.authoring.graphs.run.evaluator import Evaluator
from stepwell.authoring.graphs.run.state import (
    STOP,
    Effect,
    Failure,
    Marker,
    MarkerKind,
    NodeRun,
    ScopeRun,
    failed,
    failure_of,
)
from stepwell.authoring.graphs.run.variables import Variables
from stepwell.errors import ExpressionError, StepwellError

_REMOVED: Any = object()
_PROGRESS_PARTS = 100  # a loop records its progress at most this often


class LoopRun:
    """The progress of a loop."""

    __slots__ = ("carry", "count", "done", "failed", "items", "next", "over", "results", "running")

    def __init__(self, items: list[Any] | None, count: int | None) -> None:
        self.items = items
        self.count = count  # None: a while loop does not know
        self.next = 0
        self.done = 0
        self.over = False  # no further iteration begins
        self.carry: Any = None
        self.results: list[Any] = []
        self.failed: list[dict[str, Any]] = []
        self.running: dict[int, ScopeRun] = {}


class Loops:
    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    # Beginning

    def start(self, node_run: NodeRun) -> list[Effect]:
        loop: Loop = node_run.node.behaviour
        scope = self._evaluator.scope_of(node_run)
        now = self._evaluator.now_of(node_run)
        items: list[Any] | None = None
        count = loop.times
        if loop.items is not None:
            items = _batches(loop, loop.items.evaluate(scope, now))
            count = len(items)
        if count is not None and count > loop.limit:
            raise NodeError("LOOP_LIMIT", f"{count:,} iterations; the limit is {loop.limit:,}", config=True)
        run = node_run.loop = LoopRun(items, count)
        run.carry = loop.carry.evaluate(scope, now) if loop.carry is not None else loop.carry_value
        return [Marker(MarkerKind.LOOP_STARTED, node_run.path, count), *self._continue(node_run, run)]

    def _continue(self, node_run: NodeRun, run: LoopRun) -> list[Effect]:
        """Open the iterations that may run now; if none is left, the loop is done."""
        loop: Loop = node_run.node.behaviour
        effects: list[Effect] = []
        try:
            while not run.over and len(run.running) < loop.width:
                if run.count is not None:
                    if run.next >= run.count:
                        break
                elif not self._holds(node_run, run):
                    break
                index, run.next = run.next, run.next + 1
                effects.append(self._iteration(node_run, run, index))
        except StepwellError as error:
            return [*effects, *failed(node_run, failure_of(error, node_run))]
        return effects if run.running else self._finish(node_run, run)

    def _holds(self, node_run: NodeRun, run: LoopRun) -> bool:
        """GR-L6, GR-L7: a while loop evaluates its condition before each iteration."""
        loop: Loop = node_run.node.behaviour
        assert loop.condition is not None
        scope = self._evaluator.scope_of(node_run)
        scope["loop"] = self._variables(node_run, run, run.next)
        if not loop.condition.truth(scope, self._now(node_run, run.next, "while")):
            run.over = True
        elif run.next >= loop.limit:
            raise NodeError(
                "LOOP_LIMIT",
                f"still true after {loop.limit:,} iterations",
                hint="raise maxIterations",
                config=True,
            )
        return not run.over

    def _variables(self, node_run: NodeRun, run: LoopRun, index: int) -> dict[str, Any]:
        """GR-L9: what expressions see as `loop`."""
        item = run.items[index] if run.items is not None else index
        return {
            "item": item,
            "currentItem": item,
            "index": index,
            "count": run.count,
            "carry": run.carry,
            "parent": node_run.scope.loop,
        }

    def _iteration(self, node_run: NodeRun, run: LoopRun, index: int) -> ScopeRun:
        plan = node_run.node.body
        assert plan is not None
        run.results.append(None)
        prefix = f"{node_run.path}[{index}]/"
        scope = ScopeRun(plan, prefix, node_run.variables, node_run, self._variables(node_run, run, index))
        run.running[index] = scope
        return scope

    # One iteration

    def iteration_done(self, node_run: NodeRun, scope: ScopeRun, after: Variables) -> list[Effect]:
        loop: Loop = node_run.node.behaviour
        run: LoopRun = node_run.loop
        assert scope.loop is not None
        index = scope.loop["index"]
        del run.running[index]
        seen = self._evaluator.scope_of(node_run)
        seen["ctx"], seen["loop"] = after.values, scope.loop
        try:
            if loop.collect is not None:
                run.results[index] = loop.collect.evaluate(seen, self._now(node_run, index, "collect"))
        except ExpressionError as error:
            return self._item_failed(node_run, run, index, failure_of(error, node_run))
        try:
            if loop.carry_next is not None:
                run.carry = loop.carry_next.evaluate(seen, self._now(node_run, index, "carry"))
                seen["loop"] = {**scope.loop, "carry": run.carry}
            if loop.break_when is not None and loop.break_when.truth(
                seen, self._now(node_run, index, "break")
            ):
                run.over = True
        except StepwellError as error:
            return failed(node_run, failure_of(error, node_run))
        return self._advance(node_run, run)

    def _now(self, node_run: NodeRun, index: int, what: str) -> float | None:
        return self._evaluator.now_of(node_run, f"[{index}]@{what}")

    def iteration_failed(self, node_run: NodeRun, scope: ScopeRun, failure: Failure) -> list[Effect]:
        run: LoopRun = node_run.loop
        assert scope.loop is not None
        index = scope.loop["index"]
        run.running.pop(index, None)
        return self._item_failed(node_run, run, index, failure)

    def _item_failed(self, node_run: NodeRun, run: LoopRun, index: int, failure: Failure) -> list[Effect]:
        """GR-L4: the loop fails, or continues with a placeholder or without the item."""
        loop: Loop = node_run.node.behaviour
        if loop.on_error == "fail":
            return failed(node_run, failure)
        run.failed.append({"index": index, "error": failure.code, "message": failure.message})
        run.results[index] = {"error": failure.code} if loop.on_error == "continue" else _REMOVED
        return self._advance(node_run, run)

    def _advance(self, node_run: NodeRun, run: LoopRun) -> list[Effect]:
        run.done += 1
        effects: list[Effect] = []
        if run.count is not None and run.count > 1:
            every = max(1, run.count // _PROGRESS_PARTS)
            if run.done % every == 0 and run.done < run.count:
                path = f"{node_run.path}[{run.done}]"
                effects.append(Marker(MarkerKind.LOOP_ADVANCED, path, (run.done, run.count)))
        return effects + self._continue(node_run, run)

    def _finish(self, node_run: NodeRun, run: LoopRun) -> list[Effect]:
        results = [result for result in run.results if result is not _REMOVED]
        failures = sorted(run.failed, key=lambda failure: failure["index"])
        output = {"results": results, "failed": failures, "count": run.done, "carry": run.carry}
        # The marker has the figures only: the results are in the log already, item by item.
        summary = {"output": {"count": run.done, "failed": len(failures)}, "handles": ["out"]}
        over = Marker(MarkerKind.LOOP_COMPLETED, node_run.path, (run.done, len(failures)))
        marker = Marker(MarkerKind.COMPLETED, node_run.path, summary)
        return [STOP, over, marker, NodeOutcome(output=output)]


def _batches(loop: Loop, items: Any) -> list[Any]:
    if not isinstance(items, list):
        raise NodeError("EXPRESSION_ERROR", f"items must be a list, not {type(items).__name__}", config=True)
    size = loop.batch
    return items if size is None else [items[at : at + size] for at in range(0, len(items), size)]
