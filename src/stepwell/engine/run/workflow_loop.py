"""WorkflowLoop: the event loop on which workflow code runs, one deterministic turn at a time.

Workflow code uses `asyncio` as always (gather, TaskGroup, Event, Queue), but on a loop of its own
that has no clock, no sockets and no threads: only answers of the log make it move. A turn runs
until nothing is ready, so what the code asks for and in which order depends on the log alone.
That makes replay exact, and "every task waits" is simply "nothing is ready".
"""

from __future__ import annotations

import asyncio
import logging
import operator
import sys
from asyncio import events, tasks
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from types import CodeType, FrameType
from typing import Any, NoReturn, TypeVarTuple, Unpack

import msgspec

from stepwell.domain import control_flow
from stepwell.domain.control_flow import Unwind
from stepwell.domain.workflow_code import DirectCalls
from stepwell.errors import NotDurable

Ts = TypeVarTuple("Ts")
_log = logging.getLogger("stepwell.engine")

CANCELLING = "the run is being cancelled"


class RunCancelling(control_flow.RunCancelling, asyncio.CancelledError):
    """What code sees. Defined here, so that declaring steps and workflows does not import asyncio."""


# Callbacks in one turn. Ten thousand tasks at once need some ten thousands; code that goes round and round
# without waiting for an answer would hold its worker forever.
_TURN = range(1_000_000)

# Asked at each turn. In 3.11 current_task is a function of Python that looks into this dict.
_task_of: Callable[[asyncio.AbstractEventLoop], asyncio.Task[Any] | None] = (
    tasks._current_tasks.get  # type: ignore[attr-defined]
    if sys.version_info < (3, 12)
    else asyncio.current_task
)


class TaskScope:
    """Where in the run a task is: its steps are named and counted apart from those of other tasks."""

    __slots__ = ("_children", "_counts", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._counts: dict[str, int] = {}
        self._children = 0

    def name(self, what: str) -> str:
        """The path of the next `what` in this scope: path/what#1, path/what#2 ..."""
        count = self._counts.get(what, 0) + 1
        self._counts[what] = count
        return f"{self.path}/{what}#{count}"

    def child(self) -> TaskScope:
        """The scope of the next task that code in this scope creates, in order of creation."""
        self._children += 1
        return TaskScope(f"{self.path}~{self._children}")


def outside() -> NotDurable:
    """The error for a use of ctx elsewhere: the log could not say where it was asked."""
    return NotDurable(
        "ctx was used outside its workflow's code: in a step, in a thread or after the run ended",
        hint="ask in the workflow itself and pass the answer on; a step has its own context: "
        "name its first parameter `ctx: StepContext`",
    )


_scope: ContextVar[TaskScope] = ContextVar("stepwell_scope")


class _Ready(msgspec.Struct, eq=False):
    """A callback that is due: a small asyncio.Handle, because there are two a step."""

    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: Context
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled


class WorkflowLoop(asyncio.AbstractEventLoop):
    repeats = True  # what clients look for: client/replay_guard.py

    def __init__(self, root: TaskScope, direct_calls: DirectCalls = "warn") -> None:
        self.ready: deque[_Ready] = deque()
        self.root = root
        self.direct_calls = direct_calls  # what a step looks for: authoring/functions/direct_call.py
        self.endless = False  # a turn did not end
        self._scopes: dict[asyncio.Task[Any], TaskScope] = {}
        self._entered = False

    def run_turn(self) -> None:
        """Run everything that is ready, and what becomes ready by that, in order."""
        ready = self.ready
        if not ready:
            return
        outer = events._get_running_loop()
        current = _task_of(outer) if outer is not None else None
        if outer is not None and current is not None:
            tasks._leave_task(outer, current)
        events._set_running_loop(self)
        try:
            for _ in _TURN:
                if not ready:
                    break
                handle = ready.popleft()
                if handle.is_cancelled:
                    continue
                try:
                    handle.context.run(handle.callback, *handle.args)
                except SystemExit:
                    pass  # a task's own, which has kept it: what it awaits, or the run, fails with it
                except Exception as error:
                    self.call_exception_handler({"exception": error})
            else:
                self.endless = True
                ready.clear()
        finally:
            events._set_running_loop(outer)
            if outer is not None and current is not None:
                tasks._enter_task(outer, current)

    def scope(self) -> TaskScope:
        """The scope of the task that runs now; NotDurable when no workflow code runs.

        Steps have the context variables of the code that asked for them, this one too; but not this loop.
        """
        scope = _scope.get(None)
        if scope is None or not (self._entered or events._get_running_loop() is self):
            raise outside()
        return scope

    @contextmanager
    def enter(self, scope: TaskScope) -> Iterator[None]:
        """Ask in this scope, from code that is not a task of the loop."""
        token = _scope.set(scope)
        self._entered = True
        try:
            yield
        finally:
            self._entered = False
            _scope.reset(token)

    def cancel_rest(self, main: asyncio.Task[Any]) -> bool:
        """The main task was cancelled: as in asyncio.run, cancel all others and await them.

        True: there are some.
        """
        rest = [task for task in self._scopes if task is not main]
        for task in rest:
            if not task.cancelling():
                task.cancel(CANCELLING)
        return bool(rest)

    def unwind(self, pending: Iterable[asyncio.Future[Any]], why: type[Unwind]) -> None:
        """Let every task leave its code: what it waits for raises `why`, be it a call, an event or a queue.

        No task sees a CancelledError, which would say that the run is being cancelled. Tasks that are awaited
        leave before the tasks that await them, which would cancel them otherwise.
        """
        tasks = list(self._scopes)
        reasons = []
        for waiter in [*pending, *map(_waiter, reversed(tasks))]:
            if waiter is not None and not waiter.done():
                reasons.append(why())
                waiter.set_exception(reasons[-1])
        self.run_turn()
        for task in list(self._scopes):
            task.cancel()
        self.run_turn()
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()  # marks it as seen: nobody else asks
        for reason in reasons:
            reason.__traceback__ = None  # it holds the frames that hold the future that holds it

    # What asyncio asks of a loop

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        scope = self.scope().child()
        if (awaitables := _as_completed(sys._getframe(1))) is not None:
            for one in [coro, *awaitables]:  # none has begun: no warning that they were never awaited
                if asyncio.iscoroutine(one):
                    one.close()
            raise NotDurable(
                "asyncio.as_completed over coroutines begins them in no fixed order: no replay can repeat it",
                hint="give it tasks: asyncio.as_completed([asyncio.create_task(one) for one in coroutines]), "
                "or use ctx.all, ctx.map or ctx.first",
            )
        return self.start(coro, scope, name=name, context=context)

    def start(
        self, coro: Any, scope: TaskScope, *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        """A task of the workflow whose calls are named in this scope."""
        context = context or copy_context()
        context.run(_scope.set, scope)
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._scopes[task] = scope
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._scopes.pop(task, None)

    def call_soon(  # type: ignore[override]  # what it returns can be cancelled
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> _Ready:
        handle = _Ready(callback, args, context or copy_context())
        self.ready.append(handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    # Every future asks for it, from C: a call of Python there costs more than making the future.
    get_debug = staticmethod(bool)

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Log the error of a task that nobody awaited. Only the main task decides how the run ends."""
        error = context.get("exception")
        if error is not None and not isinstance(error, Unwind | asyncio.CancelledError):
            _log.warning("an error in a task of a workflow was never awaited", exc_info=error)


def _waiter(task: asyncio.Task[Any]) -> asyncio.Future[Any] | None:
    """What the task waits for; None if that is another task, which leaves its own code."""
    waiter = getattr(task, "_fut_waiter", None)
    return None if isinstance(waiter, asyncio.Task) else waiter


def _as_completed(frame: FrameType | None) -> Iterable[object] | None:
    """The awaitables of asyncio.as_completed, if it creates this task: it iterates over a set.

    Sets have no fixed order. None: something else creates the task, as is usual; that costs one look.
    """
    while frame is not None and frame.f_code in _ENSURE_FUTURE:
        frame = frame.f_back
    for _ in range(2):  # a comprehension has a frame of its own before 3.12
        if frame is not None and frame.f_globals is _ASYNCIO_TASKS:
            if frame.f_code in _AS_COMPLETED:
                awaitables = frame.f_locals.get("fs") or frame.f_locals.get("aws")
                return awaitables if isinstance(awaitables, list | tuple | set) else ()
            frame = frame.f_back
    return None


def _codes(*names: str) -> frozenset[CodeType]:
    """Of functions of asyncio.tasks; which of them there are depends on the version of Python."""
    functions = (operator.attrgetter(name)(tasks) for name in names if hasattr(tasks, name.split(".")[0]))
    return frozenset(function.__code__ for function in functions)


_ASYNCIO_TASKS = vars(tasks)
_ENSURE_FUTURE = _codes("ensure_future", "_ensure_future")
_AS_COMPLETED = _codes("as_completed", "_AsCompletedIterator.__init__")

_CLOCK = "asyncio's clock (asyncio.sleep, asyncio.timeout, asyncio.wait_for)"
_NO_CLOCK = "ctx.sleep, the timeout= of a ctx verb, or ctx.first"
_THREAD = "a thread (asyncio.to_thread, run_in_executor)"
_NO_THREAD = "ctx.step(fn, ...): it runs a plain function in a thread"
_NO_FOREIGN = "a step: await ctx.step(fn, ...)"

_FOREIGN = (
    "create_connection",
    "create_server",
    "create_unix_connection",
    "create_datagram_endpoint",
    "sock_recv",
    "sock_sendall",
    "sock_connect",
    "sock_accept",
    "getaddrinfo",
    "subprocess_exec",
    "subprocess_shell",
    "add_reader",
    "add_writer",
    "connect_read_pipe",
    "connect_write_pipe",
)

# What workflow code cannot have, and what it can have instead.
_REFUSED = {
    "time": (_CLOCK, _NO_CLOCK),
    "call_later": (_CLOCK, _NO_CLOCK),
    "call_at": (_CLOCK, _NO_CLOCK),
    "run_in_executor": (_THREAD, _NO_THREAD),
    "call_soon_threadsafe": (_THREAD, _NO_THREAD),
    **{name: (f"asyncio's {name}", _NO_FOREIGN) for name in _FOREIGN},
}


def _refuser(what: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise NotDurable(
            f"workflow code used {what}, which cannot be repeated after a restart", hint=f"use {instead}"
        )

    return refuse


for _name, (_what, _instead) in _REFUSED.items():
    setattr(WorkflowLoop, _name, _refuser(_what, _instead))
