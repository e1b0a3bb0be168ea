"""TaskTracker: what the tasks of a transition attempt wait for.

An attempt rests when all of its code waits for the log: in ctx calls, or for tasks of its own that do.
What a task waits for is read from asyncio's own objects: a task that is awaited, asyncio.gather,
asyncio.wait, and a TaskGroup that is being left. A task that waits for anything else (a queue, an event, a
socket, a clock) may be woken by something that we do not know, and counts as code that runs.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import re
from collections.abc import Callable, Collection, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from stepwell.engine.run.workflow_loop import TaskScope

_UNNAMED = re.compile(r"Task-(\d+)")
_WAIT: Any = vars(asyncio.tasks)["_wait"].__code__

Task = asyncio.Task[Any]


class TrackedTask:
    """A task of the attempt: its ctx calls are named and counted apart from those of others."""

    __slots__ = ("branches", "calls", "code", "known_waiter", "owner", "scope")

    def __init__(self, scope: TaskScope, owner: Task | None, code: Any) -> None:
        self.scope = scope
        self.owner = owner
        self.code = code  # the coroutine that it runs
        self.calls = 0  # ctx calls that this task is in
        self.known_waiter: Any = None  # all tasks that it waits for are tracked
        self.branches: dict[Task, Iterator[TaskScope]] = {}  # of tasks that have not asked yet


current: contextvars.ContextVar[TrackedTask] = contextvars.ContextVar("stepwell_tracked_task")


class TaskTracker:
    """The tasks of one attempt. `ended` is called when a task is over and those that wait for it know."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
        self._loop = loop
        self._tell = ended
        self._known: dict[Task | None, TrackedTask | None] = {}  # None: it never asked for anything
        self._loose: dict[TrackedTask, None] = {}  # not in a ctx call and not over; the latest last
        self._watched: set[Task] = set()
        self._left = False

    def get(self, task: Task | None) -> TrackedTask | None:
        return self._known.get(task)

    def main(self, scope: TaskScope, task: Task | None, code: Any) -> TrackedTask:
        tracked = self._known[task] = TrackedTask(scope, task, code)
        self._loose[tracked] = None
        return tracked

    def branch(self, scope: TaskScope, task: Task) -> TrackedTask:
        tracked = self.main(scope, task, task.get_coro())
        self._watch(task)
        return tracked

    def enters(self, tracked: TrackedTask) -> bool:
        """It begins a ctx call; True: now all of them are in one."""
        tracked.calls += 1
        self._loose.pop(tracked, None)
        return not self._loose

    def leaves(self, tracked: TrackedTask) -> None:
        tracked.calls -= 1
        if not tracked.calls and not (tracked.owner is not None and tracked.owner.done()):
            self._loose[tracked] = None

    def _watch(self, task: Task) -> None:
        if task not in self._watched:
            self._watched.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: Task) -> None:
        if self._left:
            if not task.cancelled():
                task.exception()  # marks it as seen: nobody else asks
        else:  # the tasks that wait for it come first
            self._loop.call_soon(self._over, task)

    def leave(self) -> None:
        """The attempt is left: none of its tasks is wanted from now on."""
        self._left = True
        for task in self._known:
            if task is not None and not task.done():
                task.cancel()

    def _over(self, task: Task) -> None:
        tracked = self._known.setdefault(task, None)
        if tracked is not None:
            self._loose.pop(tracked, None)
        self._tell()

    def scope_of(self, parent: TrackedTask, task: Task) -> TaskScope:
        """Of a new branch: in the order in which they were made, whichever of them asks first.

        Tasks of one name cannot be distinguished: they get theirs in the order of asking.
        """
        branches = parent.branches
        if task not in branches:
            new = [
                other
                for other in _awaited(parent).tasks
                if other not in branches and other not in self._known
            ]
            for _, alike in groupby(sorted(new, key=_made), _made):
                tasks = list(alike)
                branches.update(dict.fromkeys(tasks, iter([parent.scope.child() for _ in tasks])))
        mine = branches.pop(task, None)
        return parent.scope.child() if mine is None else next(mine)

    # Do they wait for the log?

    def rest(self) -> bool:
        """Does every one of them continue only with an answer of the log?"""
        return bool(self._known) and all(self._rests(tracked) for tracked in reversed(self._loose))

    def _rests(self, tracked: TrackedTask) -> bool:
        """It waits for tasks, which are all known: then each of them is in a ctx call, over, or loose too."""
        awaited = _awaited(tracked)
        if not awaited.tasks or awaited.waiter is None or awaited.waiter.done():
            return False
        if awaited.waiter is not tracked.known_waiter:
            unknown = set(awaited.tasks) - self._known.keys()
            for task in unknown:
                self._watch(task)
            if unknown:
                return False
            tracked.known_waiter = None if awaited.grows else awaited.waiter
        return True

    @property
    def stirs(self) -> bool:
        """Is one of them about to hear of a task that is over, or still on its way into its call?"""
        running = any(task and getattr(task.get_coro(), "cr_running", False) for task in self._known)
        return running or any(_awaited(tracked).unheard for tracked in self._loose)

    @property
    def timed(self) -> bool:
        """Is any of them inside `async with asyncio.timeout(...)`? A clock that only this process has."""
        codes = [
            tracked.code if tracked else task and task.get_coro() for task, tracked in self._known.items()
        ]
        return any(map(_is_timed, codes))


class _Awaited(NamedTuple):
    waiter: Any  # the future that the task waits for
    tasks: Collection[Task] = ()  # those that it will hear of by it
    grows: bool = False  # there may be more of them later; those that were heard of are taken out
    open: int | None = None  # how many of them were not heard of yet

    @property
    def unheard(self) -> bool:
        """Some are over, and what that leads to has not happened yet."""
        over = sum(task.done() for task in self.tasks)
        if self.open is not None:
            return len(self.tasks) - over < self.open
        return over > 0 if self.grows else over == len(self.tasks)


def _awaited(tracked: TrackedTask) -> _Awaited:
    waiter = getattr(tracked.owner, "_fut_waiter", None)
    if isinstance(waiter, asyncio.Task):
        return _Awaited(waiter, [waiter])
    children: list[Task] | None = getattr(waiter, "_children", None)
    if children:
        return _Awaited(waiter, children)
    for coroutine in _inside(tracked.code):
        frame = coroutine.cr_frame
        owner = frame.f_locals.get("self")
        if frame.f_code is _WAIT:
            timed = frame.f_locals.get("timeout_handle") is not None
            return _Awaited(waiter, () if timed else frame.f_locals["fs"], open=frame.f_locals["counter"])
        if isinstance(owner, asyncio.TaskGroup) and frame.f_code.co_name == "__aexit__":
            group: Any = owner
            return _Awaited(waiter, () if group._aborting else group._tasks, grows=True)
    return _Awaited(waiter)


def _inside(coroutine: Any) -> Iterator[Any]:
    """From this coroutine to the innermost that it is in; none when it is over."""
    while getattr(coroutine, "cr_frame", None) is not None:
        yield coroutine
        coroutine = coroutine.cr_await


def _is_timed(code: Any) -> bool:
    """A coroutine holds the end of each `async with` that it is in."""
    for coroutine in _inside(code):
        for held in gc.get_referents(coroutine):
            owner = getattr(held, "__self__", None)
            if isinstance(owner, asyncio.Timeout) and owner.when() is not None:
                return True
    return False


def _made(task: Task) -> tuple[int, str]:
    """asyncio numbers tasks that nobody named. The others go by name: a TaskGroup has them in no order."""
    name = task.get_name()
    number = _UNNAMED.fullmatch(name)
    return (int(number[1]), "") if number is not None else (0, name)
