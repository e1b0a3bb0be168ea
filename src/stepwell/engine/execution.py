"""Execution: one attempt of a step's function, on the loop, in a thread or in a process.

A timeout really ends it: an async function is cancelled, a thread is left behind (its result no
longer counts), a process is killed.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stepwell.domain.program import StepContext
from stepwell.domain.steps import StepSpec
from stepwell.errors import StepTimedOut, Unwind

if TYPE_CHECKING:
    from stepwell.engine.services import Services

Ended = Callable[[Any, BaseException | None], None]


class Execution:
    __slots__ = (
        "_args",
        "_ended",
        "_handle",
        "_kwargs",
        "_services",
        "_task",
        "began",
        "context",
        "noted",
        "spec",
    )

    def __init__(
        self,
        services: Services,
        spec: StepSpec,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        context: StepContext,
    ) -> None:
        self._services = services
        self.spec = spec
        self._args = (context, *args) if spec.wants_context else args
        self._kwargs = kwargs
        self.context = context
        self.began = services.clock.monotonic()
        self.noted = False
        self._ended: Ended | None = None
        self._task: asyncio.Task[Any] | None = None
        self._handle: asyncio.TimerHandle | None = None

    def run(self, ended: Ended) -> None:
        """Begin; `ended(result, error)` is called once, unless it is stopped before."""
        self._ended = ended
        # A plain task: a step has its own life, and this is the hot path (a task group costs 4 us more).
        self._task = task = self._services.loop.create_task(self._work(), context=contextvars.Context())
        task.add_done_callback(self._done)
        if self.spec.timeout is not None:
            self._handle = self._services.loop.call_later(self.spec.timeout, self._timed_out)

    def _work(self) -> Any:
        spec = self.spec
        if spec.isolation == "process":
            return self._services.runner.in_process(spec, self._args, self._kwargs, self.context)
        if spec.is_async:
            return _called(spec.function, self._args, self._kwargs)
        return self._services.runner.in_thread(spec.function, self._args, self._kwargs)

    def body(self, connection: Any) -> Any:
        """The function over an open transaction."""
        return self.spec.function(connection, *self._args, **self._kwargs)

    def _done(self, task: asyncio.Task[Any]) -> None:
        if self._handle is not None:
            self._handle.cancel()
        ended, self._ended = self._ended, None
        if task.cancelled():
            if ended is not None:
                ended(None, asyncio.CancelledError("the step was cancelled from outside"))
            return
        error = task.exception()
        if ended is None:
            return
        if isinstance(error, Unwind):
            error = RuntimeError(f"a step raised {type(error).__name__}, which only the engine may")
        ended(None if error is not None else task.result(), error)

    def _timed_out(self) -> None:
        ended, self._ended = self._ended, None
        if self._task is not None:
            self._task.cancel()
        if ended is not None:
            ended(None, StepTimedOut(f"{self.spec.name} took longer than {self.spec.timeout:g} s"))

    def stop(self) -> None:
        """Nobody wants the result any more."""
        self._ended = None
        if self._handle is not None:
            self._handle.cancel()
        if self._task is not None:
            self._task.cancel()


async def _called(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    # Called inside the task, so that an error of the call itself is an error of the step.
    return await function(*args, **kwargs)
