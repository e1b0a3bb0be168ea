"""The context of a transition's code: the verbs of a workflow, reached from the worker's own loop.

Every verb of `RunContext` crosses as it is, so a new one needs nothing here. Only verbs that take or return
awaitables (all, first, start) have their own form.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from typing import Any, Protocol

from stepwell.domain.new_run import NO_INPUT
from stepwell.engine.context.context import RunContext, RunSteps
from stepwell.engine.execution.exit_guard import sys_exit_guard
from stepwell.engine.machine.task_tracker import TrackedTask
from stepwell.engine.run.children import Child
from stepwell.errors import InvalidDefinition


class Crosses(Protocol):
    """What the context asks of its `TransitionAttempt`."""

    attempt: int

    async def cross(self, work: Coroutine[Any, Any, Any]) -> Any: ...
    def at_once(self, verb: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def branch(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]: ...
    async def wait_for_branches(
        self, tasks: Collection[asyncio.Task[Any]], enough: Callable[[Any], bool]
    ) -> None: ...
    def tracked(self) -> TrackedTask: ...
    def won(self, path: str) -> int | None: ...
    def record_winner(self, path: str, winner: int) -> None: ...


class AttemptContext:
    def __init__(self, attempt: Crosses, ctx: RunContext) -> None:
        self._attempt = attempt
        self._ctx = ctx
        self.attempt = attempt.attempt

    @property
    def step(self) -> AttemptSteps:
        return AttemptSteps(self._attempt, self._ctx.step)

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._ctx, name)
        if name.startswith("_") or not callable(verb):
            return verb
        if inspect.iscoroutinefunction(verb):
            return lambda *args, **kwargs: self._attempt.cross(verb(*args, **kwargs))
        return lambda *args, **kwargs: self._attempt.at_once(verb, args, kwargs)

    async def all(self, *awaitables: Awaitable[Any]) -> list[Any]:
        if not awaitables:
            return []
        tasks = self._branches(awaitables)
        try:
            await self._attempt.wait_for_branches(tasks, _has_failed)
            for task in tasks:
                if task.done():
                    task.result()  # an error is raised even if branches before it still run
            return [task.result() for task in tasks]
        finally:
            await self._end(tasks)

    async def first(self, *awaitables: Awaitable[Any]) -> Any:
        if not awaitables:
            raise InvalidDefinition("ctx.first() needs at least one awaitable")
        path = self._attempt.tracked().scope.name("first")
        won = self._attempt.won(path)
        tasks = self._branches(awaitables)
        try:
            wanted = tasks if won is None else [tasks[won]]
            await self._attempt.wait_for_branches(wanted, lambda task: True)
            winner = next(i for i, task in enumerate(tasks) if task in wanted and task.done())
            if won is None:
                self._attempt.record_winner(path, winner)
            return tasks[winner].result()
        finally:
            await self._end(tasks)

    def _branches(self, awaitables: Iterable[Awaitable[Any]]) -> list[asyncio.Task[Any]]:
        return [self._attempt.branch(_awaited(awaitable)) for awaitable in awaitables]

    async def _end(self, tasks: list[asyncio.Task[Any]]) -> None:
        """The losers of first() and the rest after an error: they are cancelled, not forgotten."""
        for task in tasks:
            task.cancel()
        await self._attempt.wait_for_branches(tasks, lambda task: False)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # marks it as seen

    async def start(self, workflow: Any, input: Any = NO_INPUT, **options: Any) -> AttemptChild:
        child = await self._attempt.cross(self._ctx.start(workflow, input, **options))
        return AttemptChild(self._attempt, child)


class AttemptSteps:
    """`await ctx.step(fn, *args)` of a transition."""

    __slots__ = ("_attempt", "_caller")

    def __init__(self, attempt: Crosses, caller: RunSteps) -> None:
        self._attempt = attempt
        self._caller = caller

    def __call__(
        self, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        return self._attempt.cross(self._caller(function, *args, **kwargs))

    def on(self, *, queue: str) -> AttemptSteps:
        return AttemptSteps(self._attempt, self._caller.on(queue=queue))


class AttemptChild:
    """A started child; `await child` gives its result."""

    def __init__(self, attempt: Crosses, child: Child) -> None:
        self._attempt = attempt
        self._child = child
        self.id = child.id

    def __await__(self) -> Any:
        return self.result().__await__()

    async def result(self) -> Any:
        return await self._attempt.cross(self._child.result())


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return not task.cancelled() and task.exception() is not None


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    with sys_exit_guard():
        return await awaitable
