"""TransitionAttempt: one attempt of a transition's code.

It runs on the worker's own loop, as a step does, so it may await whatever it likes. Each of its ctx
calls crosses to the workflow's loop, runs there as a task in the visit's scope, and comes back. While
every task of the attempt is in such a call nothing executes: then the run may park, the attempt is left,
and the next owner begins it again over the answers that the log has.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from stepwell.domain.control_flow import CodeLeft, Unwind
from stepwell.domain.duration import DefaultTimeout
from stepwell.domain.steps import StepSpec
from stepwell.engine.context.context import RunContext
from stepwell.engine.context.thread_bridge import Make, ThreadBridge, ThreadContext, turn
from stepwell.engine.execution.attempt import outcome_of
from stepwell.engine.execution.step_log import StepLog, log_into
from stepwell.engine.machine.attempt_context import AttemptContext
from stepwell.engine.machine.calls import TransitionCall
from stepwell.engine.machine.task_tracker import TaskTracker, TrackedTask
from stepwell.engine.machine.task_tracker import current as _tracked
from stepwell.engine.run.port import RunParts, check_open
from stepwell.engine.run.services import Services
from stepwell.engine.run.values import record_value, recorded_value
from stepwell.engine.run.workflow_loop import RunCancelling, TaskScope, outside
from stepwell.errors import NotDurable, TransitionTimedOut
from stepwell.telemetry.spans import Spans, TracedRun


class AttemptDriver(Protocol):
    """What an attempt asks of the machine's driver."""

    @property
    def ctx(self) -> RunContext: ...

    touched: bool  # this visit has left something that the next must not see


_EXACT_BELOW = 10.0  # seconds: shorter timeouts get a timer of their own
_NOT_YET = float("inf")


Reply = asyncio.Future[Any] | concurrent.futures.Future[Any]


class Label(NamedTuple):
    """What notes of long executions call it."""

    name: str
    transactional: bool = False


class TransitionAttempt(msgspec.Struct, eq=False):
    """A struct for the same reason as `StepAttempt`; `transition_attempt` creates it."""

    _run: RunParts
    _driver: AttemptDriver
    _call: TransitionCall
    _services: Services
    path: str
    attempt: int
    variables: contextvars.Context
    began: float
    log: StepLog | None = None
    noted: bool = False
    over: bool = False
    coroutine: Coroutine[Any, Any, Any] | None = None  # until it begins
    _code: Coroutine[Any, Any, Any] | None = None
    _task: asyncio.Task[Any] | None = None  # the context in which its own code runs, once seen
    _span: Any = None
    _handle: asyncio.TimerHandle | None = None
    _tracked_tasks: TaskTracker | None = None
    _crossings: dict[asyncio.Task[Any], Reply] = {}
    _advances: bool = False  # is about to
    _left_at: float | None = None  # since when the whole run has only been waiting
    _bridge: ThreadBridge | None = None

    @property
    def _limit(self) -> float | None:
        """Its timeout, in seconds."""
        limit = self._call.transition.timeout
        return self._services.step_timeout if type(limit) is DefaultTimeout else limit

    def run(self) -> None:
        call, services, ctx = self._call, self._services, self._driver.ctx
        call.running = self
        try:
            work = self._in_thread(ctx) if call.transition.threaded else call.body(AttemptContext(self, ctx))
        except Exception as error:
            services.loop.call_soon(self._end, None, error)
            return
        self._code = work
        self._run.steps.executing[self.path] = self
        if call.transition.threaded:
            self._task = task = asyncio.Task(work, loop=services.loop, context=self.variables)
            task.add_done_callback(lambda task: self.done(*outcome_of(task)))
            services.runner.running[self] = None
        else:
            self.coroutine = work
            services.runner.loop.put(self)

    def waits(self, task: asyncio.Task[None]) -> None:
        """It has begun and waits for something: from now on it can time out."""
        if self.over:  # the run was lost while it began
            task.cancel()
            return
        self._task = task
        self._services.runner.running[self] = None
        limit = self._limit
        if limit is not None and limit < _EXACT_BELOW:
            self._handle = self._services.loop.call_later(limit, self.look_again)

    @property
    def place(self) -> tuple[str, str]:
        """Its run, and its path there."""
        return self._run.run_id, self.path

    @property
    def label(self) -> str:
        """What messages to people call it."""
        return f"run {self._run.run_id}, transition {self.path}"

    @property
    def spec(self) -> Label:
        return Label(self._call.transition.name)

    def _in_thread(self, ctx: RunContext) -> Coroutine[Any, Any, Any]:
        spec = StepSpec(name=self._call.transition.name, function=self._call.body)
        self._bridge = ThreadBridge(self._services.loop, self._enter_from_thread)
        sync_ctx = ThreadContext(self._bridge, ctx, attempt=self.attempt)
        return self._services.runner.in_thread(spec, (sync_ctx,), {}, self)

    def _enter_from_thread(self, make: Make, reply: concurrent.futures.Future[Any]) -> None:
        try:
            self.enter(turn(make), self.main_task(), reply)
        except BaseException as error:
            reply.set_exception(error)

    # Time

    def begin(self) -> None:
        """A thread has taken it up; called on that thread."""
        assert self._bridge is not None
        self._bridge.begin()
        self.began = self._services.clock.monotonic()

    def look(self, now: float) -> None:
        """Called now and then: has it run for too long? Time in which it only waits does not count."""
        limit = self._limit
        if limit is not None and self._left_at is None and now - self.began >= limit:
            self._time_out(limit)

    def look_again(self) -> None:
        """The same by a timer of its own."""
        limit = self._limit
        if self.over or limit is None:
            return
        now = self._services.clock.monotonic()
        self.look(now)
        if not self.over:
            used = (self._left_at or now) - self.began
            self._handle = self._services.loop.call_later(max(0.005, limit - used), self.look_again)

    def _time_out(self, limit: float) -> None:
        error = TransitionTimedOut(f"{self._call.transition.name} took longer than {limit:g} s")
        self._leave(cancel=True)
        self._end(None, error)

    # Ending

    def done(self, result: Any, error: BaseException | None) -> None:
        """Its code returned or raised."""
        if error is not None and isinstance(error, asyncio.CancelledError):
            error = asyncio.CancelledError(f"{self._call.transition.name} was cancelled from inside")
        if not self.over:
            self._leave(cancel=False)
            self._end(result, error)

    def begin_span(self, spans: Spans) -> None:
        run, call = TracedRun(self._run.run_id, self._run.journal.accepted.root), self._call
        self._span = spans.begin(
            run, self.path, self.attempt, name=call.transition.name, variables=self.variables
        )

    def _end(self, result: Any, error: BaseException | None) -> None:
        """Answer the machine once the lines of this attempt are written."""
        if self._span is not None and self._services.spans is not None:
            self._services.spans.end(self._span, error)
        if self.log is not None:
            if self.log.used:
                self._run.hold()
                self.log.end(partial(self._answer_held, result, error))
                return
            self.log.closed = True
        self._answer(result, error)

    def _answer_held(self, result: Any, error: BaseException | None) -> None:
        self._run.release_hold()
        self._answer(result, error)

    def _answer(self, result: Any, error: BaseException | None) -> None:
        """Answer the machine. After a cancel request, any end of the code counts as its cleanup."""
        run, future = self._run, self._call.future
        run.calls.pending.pop(self.path, None)
        if run.closed is not None or future.done():
            return
        if run.cancelling:
            error = RunCancelling()
        elif error is not None and isinstance(error, Unwind):
            error = NotDurable(
                f"{self._call.transition.name} used the ctx of a transition that had ended, or raised "
                f"{type(error).__name__} itself",
                hint="use the ctx that the transition is given, and do not keep it",
            )
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
        run.advance()

    def _leave(self, *, cancel: bool) -> None:
        """Nothing that this attempt still does counts; its open ctx calls are withdrawn."""
        self.over = True
        self._call.running = None
        self._services.runner.running.pop(self, None)
        if self._handle is not None:
            self._handle.cancel()
        if self._run.closed is None:
            self._run.steps.executing.pop(self.path, None)
        for task in list(self._crossings):
            task.cancel()
        if self.coroutine is not None:
            self._never_began()
        elif cancel and self._task is not None:
            self._task.cancel()
            self._tracker.leave()

    def _never_began(self) -> bool:
        """It had not begun, and never will."""
        coroutine, self.coroutine = self.coroutine, None
        if coroutine is not None:
            coroutine.close()
        return coroutine is not None

    def stop(self) -> None:
        """It is no longer wanted, or the run was given back and it begins again elsewhere."""
        if not self.over:
            self._leave(cancel=True)

    def cancel(self) -> None:
        """The run is being cancelled: code that is in a ctx call hears it there, other code here."""
        if self._task is not None and not self._crossings:
            self._task.cancel()
        elif self._never_began():
            self._services.loop.call_soon(self.done, None, asyncio.CancelledError())

    # Crossing to the workflow's loop

    @property
    def _tracker(self) -> TaskTracker:
        """Created when it is needed: many attempts never use their ctx."""
        if self._tracked_tasks is None:
            self._tracked_tasks = TaskTracker(self._services.loop, self._look_around)
        return self._tracked_tasks

    @property
    def asked(self) -> bool:
        """Has its code used ctx?"""
        return self._tracked_tasks is not None

    def main_task(self) -> TrackedTask:
        """The attempt's own task; most have no other, and many do not even use this one."""
        if self._task is None:  # it runs for the first time: nothing else of it can
            self._task = self._services.runner.loop.current()
        main = self._tracker.get(self._task)
        if main is None:
            main = self._tracker.main(TaskScope(self.path), self._task, self._code)
            self._driver.touched = True
        return main

    def tracked(self) -> TrackedTask:
        """The task that runs now. A new one is a branch of the task that created it."""
        task = self._current_task()
        main = self.main_task()
        if task is self._task:
            return main
        if self._services.runner.loop.runs(task):  # one of our steps, or another attempt
            raise outside()
        here = _tracked.get(main)
        if here.owner is task:
            return here
        mine = self._tracker.branch(self._tracker.scope_of(here, task), task)
        _tracked.set(mine)
        return mine

    def _current_task(self) -> asyncio.Task[Any]:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # a thread without a loop
            task = None
        if task is None or task.get_loop() is not self._services.loop:
            raise NotDurable(
                f"{self._call.transition.name} uses ctx outside its own tasks: in a thread or in a callback",
                hint="call ctx in the transition itself, or in tasks that it awaits; a transition that is a "
                "plain `def` runs in a thread and has the same verbs without await",
            )
        return task

    def branch(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of its own for ctx.all and ctx.first, in the order of asking."""
        scope = self.tracked().scope.child()
        context = contextvars.copy_context()
        task = asyncio.Task(work, loop=self._services.loop, context=context)
        context.run(_tracked.set, self._tracker.branch(scope, task))
        return task

    async def wait_for_branches(
        self, tasks: Collection[asyncio.Task[Any]], enough: Callable[[Any], bool]
    ) -> None:
        """Wait for branches of ctx.all and ctx.first; see `TaskTracker`."""
        await self._tracker.wait_for_branches(self.tracked(), tasks, enough)

    def _look_around(self) -> None:
        """A branch is over: perhaps all others wait."""
        if not self.over and self._run.closed is None:
            self._stir()
            self._run.advance()

    def at_once(self, verb: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a verb that does not wait: recorded values and news."""
        self.check()
        with self._run.loop.enter(self.tracked().scope):
            result = verb(*args, **kwargs)
        self.drafted()
        return result

    def won(self, path: str) -> int | None:
        """Which branch of ctx.first was recorded as the first."""
        winner: int | None = recorded_value(self._run, path)
        return winner

    def record_winner(self, path: str, winner: int) -> None:
        record_value(self._run, path, "winner", winner)

    def drafted(self) -> None:
        """News and recorded values are written with the next commit; begin it."""
        if self._run.closed is None:
            self._run.settle()

    def check(self) -> None:
        check_open(self._run)
        if self.over:
            raise CodeLeft  # a later attempt may be running: this one must not write

    async def cross(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a verb of the workflow's context there, and wait for it here."""
        reply: asyncio.Future[Any] = self._services.loop.create_future()
        try:
            tracked = self.tracked()
        except BaseException:
            work.close()
            raise
        task = self.enter(work, tracked, reply)
        try:
            return await reply
        except asyncio.CancelledError:
            if task in self._crossings:
                task.cancel()
                self._run.advance()
            raise

    def enter(self, work: Coroutine[Any, Any, Any], tracked: TrackedTask, reply: Reply) -> asyncio.Task[Any]:
        """Begin a verb; `reply` hears what came of it. On the worker's loop only."""
        try:
            self.check()
        except BaseException:
            work.close()
            raise
        task = self._run.loop.start(work, tracked.scope)
        self._crossings[task] = reply
        task.add_done_callback(lambda done: self._answered(done, tracked))
        if self._tracker.enters(tracked):
            self._run.steps.executing.pop(self.path, None)
        if tracked.owner is self._task:
            self._run.advance()
        elif not self._advances:  # once for all branches that ask in this turn of the loop
            self._advances = True
            self._services.loop.call_soon(self._advance)
        return task

    def _advance(self) -> None:
        self._advances = False
        if self._run.closed is None:
            self._run.advance()

    def _answered(self, task: asyncio.Task[Any], tracked: TrackedTask) -> None:
        self._tracker.leaves(tracked)
        reply = self._crossings.pop(task, None)
        self._stir()
        if reply is None or reply.done():
            if not task.cancelled():
                task.exception()  # marks it as seen
            return
        if task.cancelled():
            if self._run.cancelling:
                reply.set_exception(RunCancelling())
            elif isinstance(reply, asyncio.Future):
                reply.cancel()
            else:
                reply.set_exception(CodeLeft())  # code in a thread may catch its own CancelledError
        elif (error := task.exception()) is not None:
            reply.set_exception(error)
            if isinstance(reply, asyncio.Future):
                reply.exception()  # marks it as seen: the attempt may be gone
        else:
            reply.set_result(task.result())

    def _stir(self) -> None:
        """Its code is about to run, or may be."""
        if not self.over and self._run.closed is None:
            self._run.steps.executing[self.path] = self
            self.rest(quiet=False)

    def weigh(self) -> bool:
        """Does any of its code run, or does all of it wait for the log?"""
        done = self._task is not None and self._task.done()  # and about to say so
        runs = done or not self._tracker.rests
        if not runs:
            self._run.steps.executing.pop(self.path, None)
        return runs

    def stays(self) -> bool:
        """Must it not be left? Its code is about to continue, or a clock of this process runs for it."""
        if self.weigh() or self._tracker.stirs or any(reply.done() for reply in self._crossings.values()):
            self._stir()
            self._services.loop.call_soon(self._look_around)
            return True
        return self._tracker.timed

    def rest(self, quiet: bool) -> None:
        """The run only waits from now on, or continues."""
        if quiet and self._left_at is None:
            self._left_at = self._services.clock.monotonic()
        elif not quiet and self._left_at is not None:
            self.began += self._services.clock.monotonic() - self._left_at
            self._left_at = None


def transition_attempt(run: RunParts, driver: AttemptDriver, call: TransitionCall) -> TransitionAttempt:
    """Return an attempt that `run` begins."""
    services, variables = run.services, call.variables  # each attempt has a call of its own
    log = None
    if services.step_logs is not None:
        log = StepLog(services.step_logs, run.run_id, call.path, call.attempt)
        variables.run(log_into, log)
    began = _NOT_YET if call.transition.threaded else services.clock.monotonic()
    made = TransitionAttempt(run, driver, call, services, call.path, call.attempt, variables, began, log)
    if services.spans is not None:
        made.begin_span(services.spans)
    return made
