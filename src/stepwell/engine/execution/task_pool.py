"""TaskPool: the tasks (runners) in which async steps run.

Most steps end without waiting or after one short wait, and a task for each would cost as much as everything
else about them. So a runner takes one step after the other; a step that waits keeps its runner, and another
runner continues with the steps after it. Each step has a copy of its caller's context variables, and a
cancelled runner is not reused: no step sees anything of another.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Protocol

from stepwell.engine.execution.exit_guard import exit_forked_child, in_forked_child, sys_exit_as_error

_log = logging.getLogger("stepwell.engine")

_IDLE_MAX = 16
_TURN_STEPS = 100  # steps in a row before the rest of the process has its turn


class AsyncCode(Protocol):
    """One async step, or the body of a transition, as a runner sees it."""

    variables: contextvars.Context  # in which its code runs
    coroutine: Coroutine[Any, Any, Any] | None  # cleared when it begins; None before that: no longer wanted

    def waits(self, task: asyncio.Task[None]) -> None:
        """Called when it has begun and waits for something; cancel this task to stop it."""
        ...

    def done(self, result: Any, error: BaseException | None) -> None: ...


class TaskPool:
    def __init__(self) -> None:
        self._jobs: deque[AsyncCode] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._taking = False  # a runner is awake and will take the next job

    def put(self, job: AsyncCode) -> None:
        self._jobs.append(job)
        if not self._taking:
            self._call_next()

    def runs(self, task: asyncio.Task[Any]) -> bool:
        """Whether it is one of our runners."""
        return task in self._tasks

    def current(self) -> asyncio.Task[Any] | None:
        """The runner whose step runs now. While that step begins an eager task (3.12), asyncio reports the
        eager task instead."""
        task = asyncio.current_task()
        if task in self._tasks:
            return task
        return next((task for task in self._tasks if getattr(task.get_coro(), "cr_running", False)), None)

    def _call_next(self) -> None:
        self._taking = True
        while self._idle:
            idle = self._idle.pop()
            if not idle.done():
                idle.set_result(None)
                return
        loop = asyncio.get_running_loop()
        task = asyncio.Task(self._serve(), loop=loop, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)

    def _leave_rest(self) -> None:
        """The step of this runner waits: let another runner take the jobs after it."""
        self._taking = False
        if self._jobs:
            self._call_next()

    async def _serve(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        jobs = self._jobs
        while True:
            self._taking = True
            taken = 0
            while jobs:
                job = jobs.popleft()
                coroutine, job.coroutine = job.coroutine, None
                if coroutine is None:
                    continue
                try:
                    waiting = _begin(job, coroutine)
                    if waiting is not None:
                        job.waits(task)
                        self._leave_rest()
                        await waiting
                except Exception:  # ours, not the step's: the steps after it must not wait forever
                    _log.exception("the engine failed at the end of a step")
                # Even if the step withdrew its own cancel before it was raised: it would hit the next step.
                if task.cancelling() or getattr(task, "_must_cancel", False):
                    self._leave_rest()
                    return
                taken += 1
                if taken >= _TURN_STEPS:
                    taken = 0
                    await asyncio.sleep(0)
            self._taking = False
            if len(self._idle) >= _IDLE_MAX:
                return
            idle = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle

    def forget(self) -> None:
        """Drop the jobs that have not begun."""
        for job in self._jobs:
            if job.coroutine is not None:
                job.coroutine.close()
        self._jobs.clear()

    async def close(self) -> None:
        self.forget()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def _begin(job: AsyncCode, coroutine: Coroutine[Any, Any, Any]) -> _Rest | None:
    """Run the step until it waits, which most never do. Returns the rest of it; None if it has ended."""
    slice_of = job.variables.run
    try:
        awaited = slice_of(coroutine.send, None)
    except StopIteration as ended:
        if asyncio._get_running_loop() is None:  # `in_forked_child`, inlined to save a call for every step
            exit_forked_child(None)
        job.done(ended.value, None)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a GeneratorExit of the step's own, too
        if in_forked_child():
            exit_forked_child(error)
        job.done(None, sys_exit_as_error(error))
    else:
        return _Rest(job, coroutine, slice_of, awaited)
    return None


class _Rest:
    """Awaiting it runs the rest of the step, each slice in the step's own context variables."""

    __slots__ = ("_awaited", "_coroutine", "_slice_of", "job")

    def __init__(
        self, job: AsyncCode, coroutine: Coroutine[Any, Any, Any], slice_of: Callable[..., Any], awaited: Any
    ) -> None:
        self.job = job
        self._coroutine = coroutine
        self._slice_of = slice_of
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, None]:
        coroutine, slice_of, awaited = self._coroutine, self._slice_of, self._awaited
        gone = False
        try:
            while True:
                try:
                    value = yield awaited
                except GeneratorExit:  # the loop that drove us is gone
                    gone = True
                    coroutine.close()
                    return
                except BaseException as error:
                    awaited = slice_of(coroutine.throw, error)
                else:
                    awaited = slice_of(coroutine.send, value)
        except StopIteration as ended:
            if in_forked_child():
                exit_forked_child(None)
            self.job.done(ended.value, None)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a GeneratorExit of the step's own, too
            if gone:  # re-raised, it would look like a failure of ours, and the runner would live on
                _log.warning("an abandoned step failed while it unwound", exc_info=error)
            elif in_forked_child():
                exit_forked_child(error)
            else:
                self.job.done(None, sys_exit_as_error(error))
