"""Track the tasks of a transition attempt: it rests while each of them is in a ctx verb.

A task that waits for anything else (asyncio.gather, a TaskGroup, a queue, a socket, a clock) can be woken
by code we don't see, so it counts as running.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import re
from collections.abc import Callable, Collection, Iterator
from itertools import groupby
from typing import Any

from stepwell.engine.run.workflow_loop import TaskScope

_UNNAMED = re.compile(r"Task-(\d+)")
_WAIT: Any = vars(asyncio.tasks)["_wait"].__code__

Task = asyncio.Task[Any]


class TrackedTask:
    """A task of the attempt that has used ctx. Its ctx calls are named and counted apart from the others'."""

    __slots__ = ("branches", "calls", "code", "owner", "scope", "waiter")

    def __init__(self, scope: TaskScope, owner: Task | None, code: Any) -> None:
        self.scope = scope
        self.owner = owner
        self.code = code  # the coroutine that it runs
        self.calls = 0  # ctx verbs that this task is in
        self.branches: dict[Task, Iterator[TaskScope]] = {}  # its tasks that have not used ctx yet
        self.waiter: Callable[[Task], None] | None = None  # ctx.all or ctx.first that waits for it


current: contextvars.ContextVar[TrackedTask] = contextvars.ContextVar("stepwell_task")


class TaskTracker:
    """The tasks of one attempt. `ended` is called after a branch has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
        self._loop = loop
        self._ended = ended
        self._tracked: dict[Task | None, TrackedTask] = {}
        self._loose: set[TrackedTask] = set()  # neither in a ctx verb nor over
        self._replies: set[asyncio.Future[None]] = set()
        self._left = False

    def get(self, task: Task | None) -> TrackedTask | None:
        return self._tracked.get(task)

    def main(self, scope: TaskScope, task: Task | None, code: Any) -> TrackedTask:
        tracked = self._tracked[task] = TrackedTask(scope, task, code)
        self._loose.add(tracked)
        return tracked

    def branch(self, scope: TaskScope, task: Task) -> TrackedTask:
        tracked = self.main(scope, task, task.get_coro())
        task.add_done_callback(self._done)
        return tracked

    def enters(self, tracked: TrackedTask) -> bool:
        """Note that the task begins a ctx verb; True if now each task is in one."""
        tracked.calls += 1
        self._loose.discard(tracked)
        return not self._loose

    def leaves(self, tracked: TrackedTask) -> None:
        tracked.calls -= 1
        if not tracked.calls and not (tracked.owner is not None and tracked.owner.done()):
            self._loose.add(tracked)

    async def wait_for_branches(
        self, tracked: TrackedTask, tasks: Collection[Task], enough: Callable[[Task], bool]
    ) -> None:
        """Wait in ctx.all or ctx.first, until all tasks have ended or `enough` holds for one that has."""
        pending = {task for task in tasks if not task.done()}
        if not pending or any(enough(task) for task in tasks if task.done()):
            return
        reply: asyncio.Future[None] = self._loop.create_future()

        def ended(task: Task) -> None:
            pending.discard(task)
            if not reply.done() and (not pending or enough(task)):
                self.leaves(tracked)  # already: its code is about to run
                reply.set_result(None)

        for task in pending:
            self._tracked[task].waiter = ended
        self._replies.add(reply)
        self.enters(tracked)
        try:
            await reply
        finally:
            self._replies.discard(reply)
            if reply.cancelled():
                self.leaves(tracked)

    def _done(self, task: Task) -> None:
        """Until here the ended task is loose, so the attempt cannot rest before its waiter is notified."""
        tracked = self._tracked[task]
        self._loose.discard(tracked)
        if tracked.waiter is not None:
            tracked.waiter(task)
        if not self._left:
            self._ended()
        elif not task.cancelled():
            task.exception()  # retrieved: nobody else does

    def leave(self) -> None:
        """Cancel every task: the attempt was abandoned."""
        self._left = True
        for task in self._tracked:
            if task is not None and not task.done():
                task.cancel()

    @property
    def rests(self) -> bool:
        """Whether only an answer from the log can wake any of them."""
        return bool(self._tracked) and not self._loose

    @property
    def stirs(self) -> bool:
        """Whether one of them is on its way into a verb, or was cancelled in ctx.all or ctx.first."""
        running = any(task and getattr(task.get_coro(), "cr_running", False) for task in self._tracked)
        return running or any(reply.done() for reply in self._replies)

    @property
    def timed(self) -> bool:
        """Whether any of them is inside `asyncio.timeout(...)`, a clock that only this process has."""
        return any(_is_timed(tracked.code) for tracked in self._tracked.values())

    # Names of branches

    def scope_of(self, parent: TrackedTask, task: Task) -> TaskScope:
        """Name a new branch by the order in which its parent made its tasks, whichever uses ctx first.

        Tasks with the same name cannot be distinguished; they are named in the order of their first call.
        """
        branches = parent.branches
        if task not in branches:
            new = [one for one in _awaited(parent) if one not in branches and one not in self._tracked]
            for _, alike in groupby(sorted(new, key=_creation_order), _creation_order):
                tasks = list(alike)
                branches.update(dict.fromkeys(tasks, iter([parent.scope.child() for _ in tasks])))
        scopes = branches.pop(task, None)
        return parent.scope.child() if scopes is None else next(scopes)


def _awaited(parent: TrackedTask) -> Collection[Task]:
    """The tasks that the parent waits for, as asyncio's private fields show them.

    Without these fields branches would be named in the order of their first call; nothing else needs them.
    """
    waiter = getattr(parent.owner, "_fut_waiter", None)
    if isinstance(waiter, asyncio.Task):
        return [waiter]
    children: list[Task] | None = getattr(waiter, "_children", None)  # of asyncio.gather
    if children:
        return children
    for coroutine in _inside(parent.code):
        frame = coroutine.cr_frame
        if frame.f_code is _WAIT:
            return list(frame.f_locals["fs"])
        owner = frame.f_locals.get("self")
        if isinstance(owner, asyncio.TaskGroup) and frame.f_code.co_name == "__aexit__":
            return list(getattr(owner, "_tasks", ()))
    return ()


def _inside(coroutine: Any) -> Iterator[Any]:
    """From this coroutine to the innermost that it awaits; none if it is over."""
    while getattr(coroutine, "cr_frame", None) is not None:
        yield coroutine
        coroutine = coroutine.cr_await


def _is_timed(code: Any) -> bool:
    """A coroutine holds a reference to the exit of each `async with` that it is in."""
    for coroutine in _inside(code):
        for held in gc.get_referents(coroutine):
            owner = getattr(held, "__self__", None)
            if isinstance(owner, asyncio.Timeout) and owner.when() is not None:
                return True
    return False


def _creation_order(task: Task) -> tuple[int, str]:
    """asyncio numbers unnamed tasks. Named ones go by name: a TaskGroup keeps them in no order."""
    name = task.get_name()
    number = _UNNAMED.fullmatch(name)
    return (int(number[1]), "") if number is not None else (0, name)
