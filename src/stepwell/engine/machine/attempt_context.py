"""The context of a transition's code: the verbs of a workflow, reached from the worker's own loop.

Every verb of `RunContext` crosses as it is, so a new one needs nothing here; only what takes or gives
awaitables (all, first, start) has its own form.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from threading import get_ident
from typing import TYPE_CHECKING, Any

from stepwell.domain.new_run import NO_INPUT
from stepwell.engine.context.context import RunContext, StepCaller
from stepwell.engine.execution.exit_guard import sys_exit_guard
from stepwell.engine.run.children import Child
from stepwell.engine.run.workflow_loop import outside
from stepwell.errors import InvalidDefinition

if TYPE_CHECKING:
    from stepwell.engine.machine.attempt import TransitionAttempt


class BodyContext:
    def __init__(self, body: TransitionAttempt, ctx: RunContext) -> None:
        self._body = body
        self._ctx = ctx
        self.attempt = body.attempt

    @property
    def step(self) -> BodySteps:
        return BodySteps(self._body, self._ctx.step)

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._ctx, name)
        if name.startswith("_") or not callable(verb):
            return verb
        if inspect.iscoroutinefunction(verb):
            return lambda *args, **kwargs: self._body.cross(verb(*args, **kwargs))
        return lambda *args, **kwargs: self._body.at_once(verb, args, kwargs)

    async def all(self, *awaitables: Awaitable[Any]) -> list[Any]:
        if not awaitables:
            return []
        tasks = self._branches(awaitables)
        try:
            await self._body.wait_for_branches(tasks, _has_failed)
            for task in tasks:
                if task.done():
                    task.result()  # an error is raised even if branches before it still run
            return [task.result() for task in tasks]
        finally:
            await self._end(tasks)

    async def first(self, *awaitables: Awaitable[Any]) -> Any:
        if not awaitables:
            raise InvalidDefinition("ctx.first() needs at least one awaitable")
        path = self._body.station().scope.name("first")
        won = self._body.won(path)
        tasks = self._branches(awaitables)
        try:
            wanted = tasks if won is None else [tasks[won]]
            await self._body.wait_for_branches(wanted, lambda task: True)
            winner = next(i for i, task in enumerate(tasks) if task in wanted and task.done())
            if won is None:
                self._body.record_winner(path, winner)
            return tasks[winner].result()
        finally:
            await self._end(tasks)

    def _branches(self, awaitables: Iterable[Awaitable[Any]]) -> list[asyncio.Task[Any]]:
        return [self._body.branch(_awaited(awaitable)) for awaitable in awaitables]

    async def _end(self, tasks: list[asyncio.Task[Any]]) -> None:
        """The losers of first() and who is left after an error: they are cancelled, not forgotten."""
        for task in tasks:
            task.cancel()
        await self._body.wait_for_branches(tasks, lambda task: False)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # seen

    async def start(self, workflow: Any, input: Any = NO_INPUT, **options: Any) -> BodyChild:
        child = await self._body.cross(self._ctx.start(workflow, input, **options))
        return BodyChild(self._body, child)

    def continue_as_new(self, input: Any = None) -> Any:
        raise InvalidDefinition(
            "a transition cannot continue as new",
            hint="a machine forgets its history at every checkpoint: lead it back to its first place",
        )


class BodySteps:
    """`await ctx.step(fn, *args)` of a transition."""

    __slots__ = ("_body", "_caller")

    def __init__(self, body: TransitionAttempt, caller: StepCaller) -> None:
        self._body = body
        self._caller = caller

    def __call__(
        self, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        return self._body.cross(self._caller(function, *args, **kwargs))

    def on(self, *, queue: str) -> BodySteps:
        return BodySteps(self._body, self._caller.on(queue=queue))


class BodyChild:
    """A started child; `await child` gives its result."""

    def __init__(self, body: TransitionAttempt, child: Child) -> None:
        self._body = body
        self._child = child
        self.id = child.id

    def __await__(self) -> Any:
        return self.result().__await__()

    async def result(self) -> Any:
        return await self._body.cross(self._child.result())


class ThreadContext:
    """The context of a transition that is a plain function: the same verbs, without `await`."""

    def __init__(self, body: TransitionAttempt, ctx: RunContext) -> None:
        self._body = body
        self._ctx = ctx
        self._loop = body.loop
        self.attempt = body.attempt
        self.run_id = ctx.run_id
        self.key = ctx.key

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._ctx, name)
        if name.startswith("_") or not callable(verb):
            return verb
        return lambda *args, **kwargs: self._call(lambda: verb(*args, **kwargs))

    @property
    def step(self) -> ThreadSteps:
        return ThreadSteps(self, self._ctx.step)

    def start(self, workflow: Any, input: Any = NO_INPUT, **options: Any) -> ThreadChild:
        return ThreadChild(self, self._call(lambda: self._ctx.start(workflow, input, **options)))

    def all(self, calls: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Steps at once: `ctx.all([(charge, order), (notify, user)])`."""
        return list(self._call(lambda: self._ctx.all(*(self._ctx.step(*call) for call in calls))))

    def _call(self, make: Callable[[], Any]) -> Any:
        if get_ident() != self._body.thread:  # on the worker's own it would wait for itself
            raise outside()
        reply: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def enter() -> None:
            try:
                self._body.enter(_turn(make), self._body.main_station(), reply)
            except BaseException as error:
                reply.set_exception(error)

        self._loop.call_soon_threadsafe(enter)
        return reply.result()


class ThreadSteps:
    """`ctx.step(fn, *args)` of a transition that is a plain function."""

    __slots__ = ("_caller", "_context")

    def __init__(self, context: ThreadContext, caller: StepCaller) -> None:
        self._context = context
        self._caller = caller

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return self._context._call(lambda: self._caller(function, *args, **kwargs))

    def on(self, *, queue: str) -> ThreadSteps:
        return ThreadSteps(self._context, self._caller.on(queue=queue))


class ThreadChild:
    def __init__(self, context: ThreadContext, child: Child) -> None:
        self._context = context
        self._child = child
        self.id = child.id

    def result(self) -> Any:
        return self._context._call(self._child.result)


async def _turn(make: Callable[[], Any]) -> Any:
    result = make()
    return await result if inspect.isawaitable(result) else result


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return not task.cancelled() and task.exception() is not None


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    with sys_exit_guard():
        return await awaitable
