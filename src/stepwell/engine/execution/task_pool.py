"""Runners: the tasks in which async steps run.

Most steps end without waiting or after one short wait, and a task for each would cost as much as
all else about them. So a runner takes one step after the other; a step that waits keeps its runner,
and the next one goes on with the steps behind it. Each step has a copy of its caller's context variables,
and a runner that was cancelled is not used again: no step sees anything of another.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Protocol

from stepwell.engine.execution.exit_guard import as_failure, in_copy, leave_copy

_log = logging.getLogger("stepwell.engine")

_IDLE_MAX = 16
_TURN_STEPS = 100  # steps in a row before the rest of the process has its turn


class Job(Protocol):
    """One async step as a runner sees it."""

    variables: contextvars.Context  # in which its code runs
    coroutine: Coroutine[Any, Any, Any] | None  # taken when it begins; None before: nobody wants it

    def waits(self, task: asyncio.Task[None]) -> None:
        """It has begun and waits for something; cancel this task to stop it."""
        ...

    def done(self, result: Any, error: BaseException | None) -> None: ...


class TaskPool:
    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._taking = False  # a runner is awake and will take what is put

    def put(self, job: Job) -> None:
        self._jobs.append(job)
        if not self._taking:
            self._call_next()

    def runs(self, task: asyncio.Task[Any]) -> bool:
        """Is it one of ours, so that a step runs in it?"""
        return task in self._tasks

    def current(self) -> asyncio.Task[Any] | None:
        """The runner whose step runs now. While the step begins an eager task (3.12), asyncio names that."""
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
        """The step of this runner waits: another one takes what is behind it."""
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
                except Exception:  # ours, not the step's: the steps behind it must not wait for ever
                    _log.exception("the engine failed at the end of a step")
                # Also by a step that took its own cancel back before it was raised: it would hit the next.
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
        """What has not begun never will."""
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


def _begin(job: Job, coroutine: Coroutine[Any, Any, Any]) -> _Rest | None:
    """Run the step as far as it goes without waiting; most have ended then. None: it has."""
    slice_of = job.variables.run
    try:
        awaited = slice_of(coroutine.send, None)
    except StopIteration as ended:
        if in_copy():
            leave_copy(None)
        job.done(ended.value, None)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a GeneratorExit of the step's own, too
        if in_copy():
            leave_copy(error)
        job.done(None, as_failure(error))
    else:
        return _Rest(job, coroutine, slice_of, awaited)
    return None


class _Rest:
    """Awaiting it runs the rest of the step, every slice of it in the step's own context variables."""

    __slots__ = ("_awaited", "_coroutine", "_slice_of", "job")

    def __init__(
        self, job: Job, coroutine: Coroutine[Any, Any, Any], slice_of: Callable[..., Any], awaited: Any
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
                except GeneratorExit:  # nobody drives us any more: the loop is gone
                    gone = True
                    coroutine.close()
                    return
                except BaseException as error:
                    awaited = slice_of(coroutine.throw, error)
                else:
                    awaited = slice_of(coroutine.send, value)
        except StopIteration as ended:
            if in_copy():
                leave_copy(None)
            self.job.done(ended.value, None)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a GeneratorExit of the step's own, too
            if gone:  # passed on, it would look like a failure of ours, and the runner would live on
                _log.warning("a step that was left behind failed while it unwound", exc_info=error)
            elif in_copy():
                leave_copy(error)
            else:
                self.job.done(None, as_failure(error))
