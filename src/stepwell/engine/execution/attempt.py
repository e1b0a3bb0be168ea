"""StepAttempt: one execution of a step's function, on the loop, in a thread or in a process.

A timeout really ends it: an async function is cancelled, a thread is abandoned (its result no longer counts),
a process is killed.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Coroutine, Sequence
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

from stepwell.domain.duration import chosen
from stepwell.domain.events import DocumentSaved
from stepwell.domain.program import StepContext
from stepwell.domain.steps import StepSpec
from stepwell.engine.execution.exit_guard import sys_exit_as_error, sys_exit_guard
from stepwell.engine.execution.step_log import LineSink, StepLog
from stepwell.errors import StepTimedOut, Unwind

if TYPE_CHECKING:
    from stepwell.engine.execution.step_runner import StepRunner
    from stepwell.system import Clock


class AttemptServices(Protocol):
    """What an attempt needs of its worker."""

    @property
    def clock(self) -> Clock: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def runner(self) -> StepRunner: ...

    @property
    def step_logs(self) -> LineSink | None: ...

    @property
    def step_timeout(self) -> float | None: ...


class NamedSpec(Protocol):
    """The part of a spec that reports of long executions need."""

    @property
    def name(self) -> str: ...

    @property
    def transactional(self) -> bool: ...


class Running(Protocol):
    attempt: int
    began: float  # by the monotonic clock; inf: no thread has started it yet
    noted: bool  # the log says that it takes long

    @property
    def spec(self) -> NamedSpec: ...

    def begin(self) -> None:
        """A thread or process has started it. May be called on that thread."""
        ...

    def look(self, now: float) -> None:
        """Called periodically: time it out if it has run for too long."""
        ...

    def stop(self) -> None:
        """The result is no longer wanted."""
        ...


def outcome_of(task: asyncio.Task[Any]) -> tuple[Any, BaseException | None]:
    """The result and the error with which a task ended."""
    if task.cancelled():
        return None, asyncio.CancelledError()
    error = task.exception()
    return (None if error is not None else task.result()), error


_NOT_YET = float("inf")
_EXACT_BELOW = 10.0  # seconds: shorter timeouts get a timer of their own
OnEnded = Callable[[Any, BaseException | None], None]


class StepAttempt:
    __slots__ = (
        "_args",
        "_context",
        "_ended",
        "_handle",
        "_kwargs",
        "_lease",
        "_path",
        "_run_id",
        "_services",
        "_task",
        "attempt",
        "began",
        "coroutine",
        "limit",
        "log",
        "noted",
        "saved",
        "spec",
        "variables",
    )

    def __init__(
        self,
        services: AttemptServices,
        spec: StepSpec,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        run_id: str,
        path: str,
        attempt: int,
        lease: str,
        variables: contextvars.Context | None = None,
    ) -> None:
        self._services = services
        self.spec = spec
        self.limit = chosen(spec.timeout, services.step_timeout)
        # The variables of the code that called the step, if that is in this process.
        self.variables = contextvars.Context() if variables is None else variables.copy()
        self._kwargs = kwargs
        self._run_id = run_id
        self._path = path
        self._lease = lease
        self.attempt = attempt
        self._context: StepContext | None = None
        self.saved: Sequence[DocumentSaved] = ()  # its documents; they count once it has completed
        self._args = (self.context, *args) if spec.wants_context else args
        # A plain function may have to wait for a thread or process: its time counts from when it gets one.
        self.began = services.clock.monotonic() if spec.is_async and spec.isolation == "none" else _NOT_YET
        self.noted = False
        self.log: StepLog | None = None
        if services.step_logs is not None:
            self.log = StepLog(services.step_logs, run_id, path, attempt)
            self.log.attach(self.variables)
        self._ended: OnEnded | None = None
        self._task: asyncio.Task[Any] | None = None
        self._handle: asyncio.TimerHandle | None = None
        self.coroutine: Coroutine[Any, Any, Any] | None = None  # an async step that has not begun

    @property
    def context(self) -> StepContext:
        if self._context is None:
            self._context = StepContext(
                run_id=self._run_id, path=self._path, attempt=self.attempt, lease=self._lease
            )
            self.saved = self._context.saved
        return self._context

    @property
    def place(self) -> tuple[str, str]:
        """Its run, and its path in the run."""
        return self._run_id, self._path

    @property
    def label(self) -> str:
        """Its name in messages to people."""
        return f"run {self._run_id}, step {self._path}"

    def run(self, ended: OnEnded) -> None:
        """Begin; calls `ended(result, error)` once, unless it is stopped before."""
        self._ended = ended
        spec, runner = self.spec, self._services.runner
        if spec.is_async and spec.isolation == "none":
            try:
                work = spec.function(*self._args, **self._kwargs)
            except (Exception, SystemExit) as error:  # the call itself failed: wrong arguments
                self._services.loop.call_soon(self._end, None, sys_exit_as_error(error))
                return
            self.coroutine = work if type(work) is CoroutineType else _awaited(work)
            runner.loop.put(self)
            return
        where = runner.in_process if spec.isolation == "process" else runner.in_thread
        work = where(spec, self._args, self._kwargs, self)
        self._task = asyncio.Task(work, loop=self._services.loop, context=self.variables)
        self._task.add_done_callback(lambda task: self.done(*outcome_of(task)))
        runner.running[self] = None

    def waits(self, task: asyncio.Task[None]) -> None:
        """It has begun and waits: from now on it can time out."""
        self._task = task
        self._services.runner.running[self] = None
        limit = self.limit
        if limit is not None and limit < _EXACT_BELOW:
            self._handle = self._services.loop.call_later(limit, self._time_out)

    def begin(self) -> None:
        """A thread or process has started it. May be called on that thread."""
        self.began = self._services.clock.monotonic()

    def body(self, connection: Any) -> Any:
        """Call the function with an open transaction."""
        with sys_exit_guard():
            return self.variables.copy().run(self.spec.function, connection, *self._args, **self._kwargs)

    def look(self, now: float) -> None:
        """Called periodically: time it out if it has run for too long. Saves a timer for every step."""
        if self.limit is not None and now - self.began >= self.limit:
            self._time_out()

    async def timed_body(self, connection: Any) -> Any:
        """The same within the step's timeout, for stores whose transactional steps may be async."""
        try:
            async with asyncio.timeout(self.limit) as limit:
                with sys_exit_guard():
                    result = self.body(connection)
                    return await result if inspect.isawaitable(result) else result
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise StepTimedOut(f"{self.spec.name} took longer than {self.limit:g} s") from error

    def done(self, result: Any, error: BaseException | None) -> None:
        """The function returned or raised."""
        if self._task is not None:
            self._services.runner.running.pop(self, None)
            self._task = None
        if self._handle is not None:
            self._handle.cancel()
        if isinstance(error, asyncio.CancelledError):
            error = asyncio.CancelledError("the step was cancelled from outside")
        elif isinstance(error, Unwind):
            error = RuntimeError(f"a step raised {type(error).__name__}, which only the engine may")
        self._end(result, error)

    def _end(self, result: Any, error: BaseException | None) -> None:
        if self._ended is not None:
            self._measure(error is not None)
        if self.log is None:
            self._report(result, error)
        else:
            self.log.end(lambda: self._report(result, error))

    async def log_written(self) -> None:
        """For a transactional step, which ends in its own transaction: until its lines are written."""
        if self.log is not None:
            written = asyncio.Event()
            self.log.end(written.set)
            await written.wait()

    def _report(self, result: Any, error: BaseException | None) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:  # otherwise it was stopped, or timed out
            ended(result, error)

    def _measure(self, failed: bool) -> None:
        if self.began != _NOT_YET:
            seconds = self._services.clock.monotonic() - self.began
            self._services.runner.measures.step_ended(max(0.0, seconds), failed=failed)

    def _time_out(self) -> None:
        self._leave()
        self._end(None, StepTimedOut(f"{self.spec.name} took longer than {self.limit:g} s"))

    def stop(self) -> None:
        """The result is no longer wanted."""
        self._ended = None
        if self._handle is not None:
            self._handle.cancel()
        self._leave()

    def _leave(self) -> None:
        if self._task is not None:
            self._task.cancel()
        elif self.coroutine is not None:
            self.coroutine.close()
            self.coroutine = None


async def _awaited(awaitable: Any) -> Any:
    return await awaitable
