"""Loops: a body for each item, one after the other or several at once; each iteration its own scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwell.authoring.graphs.errors import NodeError
from stepwell.authoring.graphs.nodes.containers import Loop
from stepwell.authoring.graphs.nodes.node_type import NodeOutcome
from stepwell.authoring.graphs.run.node_start import failure_of
from stepwell.authoring.graphs.run.state import Failure, MarkerKind, NodeRun, ScopeRun
from stepwell.authoring.graphs.run.variables import Variables
from stepwell.errors import ExpressionError, StepwellError

if TYPE_CHECKING:
    from stepwell.authoring.graphs.run.frontier import Frontier

_REMOVED: Any = object()
_PROGRESS_PARTS = 100  # so often at most a loop tells how far it is


class LoopRun:
    """How far a loop is."""

    __slots__ = ("carry", "count", "done", "failed", "items", "next", "over", "results", "running")

    def __init__(self, items: list[Any] | None, count: int | None) -> None:
        self.items = items
        self.count = count  # None: a while loop does not know
        self.next = 0
        self.done = 0
        self.over = False  # no iteration begins any more
        self.carry: Any = None
        self.results: list[Any] = []
        self.failed: list[dict[str, Any]] = []
        self.running: dict[int, ScopeRun] = {}


class Loops:
    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier

    # Beginning

    def start(self, step: NodeRun) -> None:
        loop: Loop = step.node.behaviour
        scope = self._frontier.starting.scope_of(step)
        now = self._frontier.starting.now_of(step)
        items: list[Any] | None = None
        count = loop.times
        if loop.items is not None:
            items = loop.items.evaluate(scope, now)
            if not isinstance(items, list):
                raise NodeError(
                    "EXPRESSION_ERROR",
                    f"items must be a list, it is {type(items).__name__}",
                    config=True,
                )
            if loop.batch is not None:
                size = loop.batch
                items = [items[at : at + size] for at in range(0, len(items), size)]
            count = len(items)
        if count is not None and count > loop.limit:
            raise NodeError("LOOP_LIMIT", f"{count:,} iterations; the limit is {loop.limit:,}", config=True)
        run = step.loop = LoopRun(items, count)
        run.carry = loop.carry.evaluate(scope, now) if loop.carry is not None else loop.carry_value
        self._frontier.note(MarkerKind.LOOP_STARTED, step.path, count)
        self._go_on(step, run)

    def _go_on(self, step: NodeRun, run: LoopRun) -> None:
        """Begin what may run now; when nothing is left the loop is done."""
        loop: Loop = step.node.behaviour
        while not run.over and len(run.running) < loop.width:
            if run.count is not None:
                if run.next >= run.count:
                    break
            elif not self._holds(step, run):
                break
            index, run.next = run.next, run.next + 1
            self._open(step, run, index)
        if not run.running:
            self._finish(step, run)

    def _holds(self, step: NodeRun, run: LoopRun) -> bool:
        """GR-L6, GR-L7: a while loop asks before each iteration."""
        loop: Loop = step.node.behaviour
        assert loop.condition is not None
        scope = self._frontier.starting.scope_of(step)
        scope["loop"] = self._variables(step, run, run.next)
        if not loop.condition.truth(scope, self._frontier.starting.now_of(step, f"[{run.next}]@while")):
            run.over = True
        elif run.next >= loop.limit:
            raise NodeError(
                "LOOP_LIMIT",
                f"still true after {loop.limit:,} iterations",
                hint="raise maxIterations",
                config=True,
            )
        return not run.over

    def _variables(self, step: NodeRun, run: LoopRun, index: int) -> dict[str, Any]:
        """GR-L9: what expressions see as `loop`."""
        item = run.items[index] if run.items is not None else index
        return {
            "item": item,
            "currentItem": item,
            "index": index,
            "count": run.count,
            "carry": run.carry,
            "parent": step.scope.loop,
        }

    def _open(self, step: NodeRun, run: LoopRun, index: int) -> None:
        plan = step.node.body
        assert plan is not None
        run.results.append(None)
        prefix = f"{step.path}[{index}]/"
        scope = ScopeRun(plan, prefix, step.context, step, self._variables(step, run, index))
        run.running[index] = scope
        self._frontier.open(scope)

    # One iteration

    def iteration_done(self, step: NodeRun, scope: ScopeRun, behind: Variables) -> None:
        loop: Loop = step.node.behaviour
        run: LoopRun = step.loop
        assert scope.loop is not None
        index = scope.loop["index"]
        del run.running[index]
        seen = self._frontier.starting.scope_of(step)
        seen["ctx"], seen["loop"] = behind.values, scope.loop
        try:
            if loop.collect is not None:
                run.results[index] = loop.collect.evaluate(seen, self._now(step, index, "collect"))
        except ExpressionError as error:
            self._item_failed(step, run, index, failure_of(error, step))
            return
        try:
            if loop.carry_next is not None:
                run.carry = loop.carry_next.evaluate(seen, self._now(step, index, "carry"))
                seen["loop"] = {**scope.loop, "carry": run.carry}
            if loop.break_when is not None and loop.break_when.truth(seen, self._now(step, index, "break")):
                run.over = True
            self._advance(step, run)
        except StepwellError as error:
            self._frontier.containers.fail(step, failure_of(error, step))

    def _now(self, step: NodeRun, index: int, what: str) -> float | None:
        return self._frontier.starting.now_of(step, f"[{index}]@{what}")

    def iteration_failed(self, step: NodeRun, scope: ScopeRun, failure: Failure) -> None:
        run: LoopRun = step.loop
        assert scope.loop is not None
        index = scope.loop["index"]
        run.running.pop(index, None)
        self._item_failed(step, run, index, failure)

    def _item_failed(self, step: NodeRun, run: LoopRun, index: int, failure: Failure) -> None:
        """GR-L4: the loop fails, or goes on with a placeholder or without the item."""
        loop: Loop = step.node.behaviour
        if loop.on_error == "fail":
            self._frontier.containers.fail(step, failure)
            return
        run.failed.append({"index": index, "error": failure.code, "message": failure.message})
        run.results[index] = {"error": failure.code} if loop.on_error == "continue" else _REMOVED
        try:
            self._advance(step, run)
        except StepwellError as error:
            self._frontier.containers.fail(step, failure_of(error, step))

    def _advance(self, step: NodeRun, run: LoopRun) -> None:
        run.done += 1
        if run.count is not None and run.count > 1:
            every = max(1, run.count // _PROGRESS_PARTS)
            if run.done % every == 0 and run.done < run.count:
                self._frontier.note(
                    MarkerKind.LOOP_ADVANCED, f"{step.path}[{run.done}]", (run.done, run.count)
                )
        self._go_on(step, run)

    def _finish(self, step: NodeRun, run: LoopRun) -> None:
        results = [result for result in run.results if result is not _REMOVED]
        failed = sorted(run.failed, key=lambda failure: failure["index"])
        output = {"results": results, "failed": failed, "count": run.done, "carry": run.carry}
        self._frontier.stop(step)
        handles = NodeOutcome(output=output)
        told = {"output": {"count": run.done, "failed": len(failed)}, "handles": ["out"]}
        self._frontier.note(MarkerKind.COMPLETED, step.path, told)
        self._frontier.complete(step, handles)
