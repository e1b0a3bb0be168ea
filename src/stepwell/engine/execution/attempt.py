"""StepAttempt: one execution of a step's function, on the loop, in a thread or in a process.

A timeout really ends it: an async function is cancelled, a thread is abandoned (its result no longer counts),
a process is killed.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from stepwell.domain.control_flow import Unwind
from stepwell.domain.duration import DefaultTimeout
from stepwell.domain.events import DocumentSaved
from stepwell.domain.program import StepContext
from stepwell.domain.steps import StepSpec
from stepwell.engine.execution.exit_guard import sys_exit_as_error, sys_exit_guard
from stepwell.engine.execution.step_log import LineSink, StepLog, log_into
from stepwell.errors import SecretsKeyMissing, StepTimedOut
from stepwell.telemetry.spans import Spans, TracedRun

if TYPE_CHECKING:
    from stepwell.engine.execution.step_runner import StepRunner
    from stepwell.system import Clock


OpenSecrets = Callable[[str, Sequence[str]], Awaitable[Mapping[str, str]]]  # of a run, by name


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

    @property
    def spans(self) -> Spans | None: ...

    @property
    def open_secrets(self) -> OpenSecrets | None: ...


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


class StepAttempt(msgspec.Struct, eq=False):
    """There is one for every step: a struct is made in a third of the time. `step_attempt` makes it."""

    _services: AttemptServices
    spec: StepSpec
    _args: tuple[Any, ...]
    _kwargs: dict[str, Any]
    _run_id: str
    _path: str
    attempt: int
    _lease: str
    variables: contextvars.Context
    began: float
    log: StepLog | None = None
    saved: Sequence[DocumentSaved] = ()  # its documents; they count once it has completed
    noted: bool = False
    coroutine: Coroutine[Any, Any, Any] | None = None  # an async step that has not begun
    _context: StepContext | None = None
    _span: Any = None
    _ended: OnEnded | None = None
    _task: asyncio.Task[Any] | None = None
    _handle: asyncio.TimerHandle | None = None

    @property
    def limit(self) -> float | None:
        """How long it may take, in seconds."""
        limit = self.spec.timeout
        return self._services.step_timeout if type(limit) is DefaultTimeout else limit

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

    async def _with_secrets(self) -> None:
        if self._services.open_secrets is None:
            raise SecretsKeyMissing(f"step {self.spec.name} names secrets, but this engine cannot open any")
        self.context.secrets = await self._services.open_secrets(self._run_id, self.spec.secrets)

    def _opened(self, opening: asyncio.Task[None]) -> None:
        self._task = None
        _, error = outcome_of(opening)
        if self._ended is None:
            return  # it was stopped meanwhile
        if error is None:
            self.run(self._ended, opened=True)
        else:
            self._end(None, error)

    def run(self, ended: OnEnded, *, opened: bool = False) -> None:
        """Begin, once its secrets are open; calls `ended(result, error)` once, unless it is stopped."""
        self._ended = ended
        spec, runner = self.spec, self._services.runner
        if spec.secrets and not opened:
            self._task = asyncio.Task(self._with_secrets(), loop=self._services.loop)
            self._task.add_done_callback(self._opened)
            return
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
        if error is not None:
            if isinstance(error, asyncio.CancelledError):
                error = asyncio.CancelledError("the step was cancelled from outside")
            elif isinstance(error, Unwind):
                error = RuntimeError(f"a step raised {type(error).__name__}, which only the engine may")
        self._end(result, error)

    def _end(self, result: Any, error: BaseException | None) -> None:
        ended, log, services = self._ended, self.log, self._services
        if ended is not None:  # otherwise it was stopped, or timed out
            if (measures := services.runner.measures) is not None and self.began != _NOT_YET:
                seconds = services.clock.monotonic() - self.began
                if error is None:
                    measures.completed.append(seconds)
                else:
                    measures.step_failed(seconds)
            if self._span is not None:
                self.end_span(error)
        if log is not None:
            if log.used:
                log.end(partial(self._report, result, error))
                return
            log.closed = True
        if ended is not None:
            self._ended = None
            ended(result, error)

    def take_context(self) -> None:
        """Its function asks for the context of the step first."""
        self._args = (self.context, *self._args)

    def begin_span(self, spans: Spans, root: str) -> None:
        run = TracedRun(self._run_id, root)
        self._span = spans.begin(run, self._path, self.attempt, name=self.spec.name, variables=self.variables)

    def end_span(self, error: BaseException | None) -> None:
        """What it did counts. The span of one that is lost or left never ends, so nobody hears of it."""
        span, self._span = self._span, None
        if span is not None and self._services.spans is not None:
            self._services.spans.end(span, error)

    async def log_written(self) -> None:
        """For a transactional step, which ends in its own transaction: until its lines are written."""
        if self.log is not None:
            written = asyncio.Event()
            self.log.end(written.set)
            await written.wait()

    def _report(self, result: Any, error: BaseException | None) -> None:
        """Its lines are written."""
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(result, error)

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


def step_attempt(
    services: AttemptServices,
    spec: StepSpec,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    run_id: str,
    path: str,
    attempt: int,
    lease: str,
    root: str = "",
    variables: contextvars.Context | None = None,
) -> StepAttempt:
    """An attempt that `run` begins. `variables`: of the code that called the step, if here."""
    variables = contextvars.Context() if variables is None else variables.copy()
    log = None
    if services.step_logs is not None:
        log = StepLog(services.step_logs, run_id, path, attempt)
        variables.run(log_into, log)
    # A plain function may have to wait for a thread or process: its time counts from when it gets one.
    began = services.clock.monotonic() if spec.is_async and spec.isolation == "none" else _NOT_YET
    made = StepAttempt(services, spec, args, kwargs, run_id, path, attempt, lease, variables, began, log)
    if spec.wants_context:
        made.take_context()
    if services.spans is not None:
        made.begin_span(services.spans, root)
    return made


async def _awaited(awaitable: Any) -> Any:
    return await awaitable
