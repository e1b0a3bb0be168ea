"""SyncBody: a workflow that is a plain function, run in a thread over the same context.

Each of its ctx calls crosses to the loop, runs there as a turn of the workflow, and comes back. The
thread never outlives a wait: when the run parks, the pending call raises and the thread unwinds.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine, Iterable
from contextvars import copy_context
from functools import partial
from threading import get_ident
from typing import Any

from stepwell.domain.new_run import NO_INPUT
from stepwell.domain.workflow_code import ThreadCode, thread_code
from stepwell.engine.context.context import RunContext
from stepwell.engine.run.children import Child
from stepwell.engine.run.port import RunPort
from stepwell.engine.run.workflow_loop import CANCELLING, RunCancelling, outside
from stepwell.errors import Suspended

_VALUES = ("now", "random", "uuid", "patched", "publish", "progress", "save")
_WAITS = ("sleep", "signal", "event", "approval", "map", "run", "document")


class SyncBody:
    def __init__(self, run: RunPort, ctx: RunContext, body: Callable[[Any], bytes]) -> None:
        self._run = run
        self._ctx = ctx
        self._body = body
        self._pending: concurrent.futures.Future[Any] | None = None
        self.running = True  # the thread is in its own code, not in a ctx call
        self._left = False
        self._thread = 0
        self._asking: asyncio.Task[Any] | None = None  # the turn of its pending ctx call

    async def drive(self) -> bytes:
        """The workflow's main coroutine: ends when the thread does."""
        done = self._run.loop.create_future()
        # Not from here: in a turn the running loop is the workflow's, and no thread may call that.
        services = self._run.services
        services.loop.call_soon(lambda: services.runner.spawn(self._run_thread(done)))
        return bytes(await done)

    async def _run_thread(self, done: asyncio.Future[Any]) -> None:
        result, error = None, None
        try:
            threads = self._run.services.runner.workflow_threads
            result = await threads.run(partial(copy_context().run, self._in_thread))
        except BaseException as failure:
            error = failure
        self.running = False
        if done.done() or self._run.closed is not None:
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)
        self._run.advance()

    def _in_thread(self) -> bytes:
        self._thread = get_ident()
        thread_code.set(ThreadCode(self._thread, self._run.services.direct_calls))
        return self._body(SyncContext(self, self._ctx))

    def call(self, make: Callable[[], Any]) -> Any:
        """On the thread: run `make` as a turn of the workflow and wait for what comes of it."""
        if get_ident() != self._thread:  # on the worker's own it would wait for itself
            raise outside()
        reply: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._run.services.loop.call_soon_threadsafe(self._enter, make, reply)
        return reply.result()

    def _enter(self, make: Callable[[], Any], reply: concurrent.futures.Future[Any]) -> None:
        run = self._run
        if run.closed is not None or self._left:
            reply.set_exception((run.closed or Suspended)())
            return
        self.running = False
        self._pending = reply
        self._asking = task = run.loop.start(_turn(make), run.loop.root)
        task.add_done_callback(self._reply)
        run.advance()

    def _reply(self, task: asyncio.Task[Any]) -> None:
        reply, self._pending = self._pending, None
        self._asking = None
        if reply is None:
            return
        self.running = True
        if task.cancelled():
            cancelling = self._run.cancelling and self._run.closed is None
            reply.set_exception(RunCancelling() if cancelling else Suspended())
        elif (error := task.exception()) is not None:
            reply.set_exception(error)
        else:
            reply.set_result(task.result())

    def cancel(self) -> None:
        """The run is being cancelled: the ctx call that the thread is in raises."""
        if self._asking is not None:
            self._asking.cancel(CANCELLING)

    def leave(self) -> None:
        """Its code is over: no ctx call of it is answered from now on, and the thread leaves it."""
        self._left = True
        if self._pending is not None and self._run.closed is not None:
            reply, self._pending = self._pending, None
            reply.set_exception(self._run.closed())


async def _turn(make: Callable[[], Any]) -> Any:
    result = make()
    return await result if isinstance(result, Coroutine) else result


class SyncContext:
    """The context of a plain workflow function: the same verbs, without `await`."""

    def __init__(self, body: SyncBody, ctx: RunContext) -> None:
        self._body = body
        self._ctx = ctx
        self.run_id = self._ctx.run_id
        self.key = self._ctx.key
        self.attempt = self._ctx.attempt
        self.step = SyncStepCaller(body, self._ctx.step)
        for name in (*_VALUES, *_WAITS):
            setattr(self, name, self._crossing(getattr(self._ctx, name)))

    def _crossing(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._body.call(lambda: verb(*args, **kwargs))

    def start(self, workflow: Any, input: Any = NO_INPUT, *, detached: bool = False) -> SyncChild:
        child = self._body.call(lambda: self._ctx.start(workflow, input, detached=detached))
        return SyncChild(self._body, child)

    def all(self, calls: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Steps at once: `ctx.all([(charge, order), (notify, user)])`."""
        return list(self._body.call(lambda: self._ctx.all(*(self._ctx.step(*call) for call in calls))))

    def continue_as_new(self, input: Any = NO_INPUT) -> Any:
        return self._body.call(lambda: self._ctx.continue_as_new(input))


class SyncStepCaller:
    def __init__(self, body: SyncBody, caller: Any) -> None:
        self._body = body
        self._caller = caller

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return self._body.call(lambda: self._caller(function, *args, **kwargs))

    def on(self, *, queue: str) -> SyncStepCaller:
        return SyncStepCaller(self._body, self._caller.on(queue=queue))


class SyncChild:
    def __init__(self, body: SyncBody, child: Child) -> None:
        self._body = body
        self._child = child
        self.id = child.id

    def result(self) -> Any:
        return self._body.call(self._child.result)
