"""The styles whose programs run in turns: functions and graphs."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from stepwell.domain.program import PathCalls, Program
from stepwell.engine.context.context import RunContext
from stepwell.engine.context.function_thread import FunctionThread
from stepwell.engine.context.path_context import PathContext
from stepwell.engine.run.style import StyleRules


class FunctionStyle(StyleRules):
    replays_code = True

    def start(self, program: Program, input: bytes) -> tuple[StyleRules, Coroutine[Any, Any, bytes]]:
        ctx = RunContext(self._run, program)
        if not program.sync:
            return self, program.run(ctx, input)
        thread = FunctionThread(self._run, ctx, lambda sync_ctx: program.run(sync_ctx, input))
        self.thread = thread
        return self, thread.drive()


class GraphStyle(StyleRules):
    def start(self, program: Program, input: bytes) -> tuple[StyleRules, Coroutine[Any, Any, bytes]]:
        ctx: PathCalls = PathContext(self._run, self._run.writer)  # so that the type checker checks them
        return self, program.run(ctx, input)
