"""FunctionThread: a workflow that is a plain function, run in a thread over the same context.

The thread never outlives a wait: when the run parks, the pending ctx call raises and the thread unwinds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any

from stepwell.domain.control_flow import CodeLeft
from stepwell.domain.workflow_code import ThreadCode, thread_code
from stepwell.engine.context.context import RunContext
from stepwell.engine.context.thread_bridge import Make, Reply, ThreadBridge, ThreadContext, turn
from stepwell.engine.run.port import RunPort
from stepwell.engine.run.workflow_loop import CANCELLING, RunCancelling


class FunctionThread:
    def __init__(self, run: RunPort, ctx: RunContext, body: Callable[[Any], bytes]) -> None:
        self._run = run
        self._ctx = ctx
        self._body = body
        self._bridge = ThreadBridge(run.services.loop, self._enter)
        self._pending: Reply | None = None
        self.running = True  # the thread is in its own code, not in a ctx call
        self._left = False
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
        self._bridge.begin()
        thread_code.set(ThreadCode(self._bridge.thread, self._run.services.direct_calls))
        return self._body(ThreadContext(self._bridge, self._ctx, attempt=self._ctx.attempt))

    def _enter(self, make: Make, reply: Reply) -> None:
        run = self._run
        if run.closed is not None or self._left:
            reply.set_exception((run.closed or CodeLeft)())
            return
        self.running = False
        self._pending = reply
        self._asking = task = run.loop.start(turn(make), run.loop.root)
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
            reply.set_exception(RunCancelling() if cancelling else CodeLeft())
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
