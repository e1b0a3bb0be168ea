"""Stations: where the tasks of a transition's body are.

A body may park when all of its code waits for the log: in ctx calls, or for tasks of its own that do.
Tasks are found where asyncio keeps them: behind asyncio.gather, and in a TaskGroup that is being left.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
from collections.abc import Sequence
from typing import Any

from stepwell.engine.turns import Scope

_UNNAMED = re.compile(r"Task-(\d+)")


class Station:
    """Where a task of the body is: its ctx calls are named and counted apart from those of others."""

    __slots__ = ("branches", "calls", "first", "owner", "scope", "together")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.owner: asyncio.Task[Any] | None = None
        self.calls = 0  # ctx calls that this task is in
        self.together: Sequence[asyncio.Task[Any]] = ()  # tasks that it waits for in ctx.all or ctx.first
        self.first = False  # one of them is enough
        self.branches: dict[asyncio.Task[Any], Scope] = {}  # of tasks that have not asked yet

    def waits(self, known: dict[asyncio.Task[Any] | None, Station]) -> bool:
        """Does only an answer of the log make it go on?"""
        if self.calls or (self.owner is not None and self.owner.done()):
            return True
        tasks = self.together or awaited_tasks(self.owner)
        if not tasks or self._goes_on(tasks):
            return False
        return all(t.done() or (t in known and known[t].waits(known)) for t in tasks)

    def _goes_on(self, tasks: Sequence[asyncio.Task[Any]]) -> bool:
        """They have ended, and its own code is about to run."""
        done = [task for task in tasks if task.done()]
        if not self.together:  # gather and TaskGroup know best whether an error is enough
            return len(done) == len(tasks) or _waiter(self.owner).done()
        failed = any(task.cancelled() or task.exception() is not None for task in done)
        return len(done) == len(tasks) or failed or (self.first and bool(done))


current: contextvars.ContextVar[Station] = contextvars.ContextVar("stepwell_station")


def awaited_tasks(task: asyncio.Task[Any] | None) -> list[asyncio.Task[Any]]:
    """The tasks that this one waits for, in the order in which they were made."""
    return list(getattr(_waiter(task), "_children", ())) or _grouped(task)


def _waiter(task: asyncio.Task[Any] | None) -> Any:
    return getattr(task, "_fut_waiter", None)


def _grouped(task: asyncio.Task[Any] | None) -> list[asyncio.Task[Any]]:
    """Of the TaskGroup at whose end the task stands, unless that is just cancelling them."""
    awaited: Any = None if task is None or task.done() else task.get_coro()
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, asyncio.TaskGroup) and frame.f_code.co_name == "__aexit__":
            state: Any = owner
            return [] if state._aborting else sorted(state._tasks, key=_made)
        awaited = awaited.cr_await
    return []


def _made(task: asyncio.Task[Any]) -> int:
    """asyncio numbers tasks that nobody named."""
    name = _UNNAMED.fullmatch(task.get_name())
    return int(name[1]) if name is not None else 0
