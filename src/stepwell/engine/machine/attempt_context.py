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
from stepwell.domain.steps import checked_name, spec_of
from stepwell.engine.context.context import RunContext
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
        return BodySteps(self)

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._ctx, name)
        if name.startswith("_") or not callable(verb):
            return verb
        if inspect.iscoroutinefunction(verb):
            return lambda *args, **kwargs: self._body.cross(verb(*args, **kwargs))
        return lambda *args, **kwargs: self._at_once(verb, args, kwargs)

    def _at_once(self, verb: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A verb that does not wait: recorded values and news."""
        self._body.check()
        with self._ctx.enter(self._body.station().scope):
            result = verb(*args, **kwargs)
        self._body.drafted()
        return result

    async def all(self, *awaitables: Awaitable[Any]) -> list[Any]:
        if not awaitables:
            return []
        tasks = self._branches(awaitables)
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in tasks:
                if task in ended:
                    task.result()  # an error is raised although branches before it go on
            return [task.result() for task in tasks]
        finally:
            await self._end(tasks)

    async def first(self, *awaitables: Awaitable[Any]) -> Any:
        if not awaitables:
            raise InvalidDefinition("ctx.first() needs at least one awaitable")
        path = self._body.station().scope.name("first")
        won = self._ctx.known_value(path)
        tasks = self._branches(awaitables)
        try:
            wanted = tasks if won is None else [tasks[won]]
            await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
            winner = next(i for i, task in enumerate(tasks) if task in wanted and task.done())
            if won is None:
                self._ctx.record_value(path, "winner", winner)
            return tasks[winner].result()
        finally:
            await self._end(tasks)

    def _branches(self, awaitables: Iterable[Awaitable[Any]]) -> list[asyncio.Task[Any]]:
        return [self._body.branch(_awaited(awaitable)) for awaitable in awaitables]

    async def _end(self, tasks: list[asyncio.Task[Any]]) -> None:
        """The losers of first() and who is left after an error: they are cancelled, not forgotten."""
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
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

    __slots__ = ("_context", "_queue")

    def __init__(self, context: BodyContext, queue: str = "") -> None:
        self._context = context
        self._queue = queue

    def __call__(
        self, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        context = self._context
        return context._body.cross(context._ctx.call_step(spec_of(function), args, kwargs, self._queue))

    def on(self, *, queue: str) -> BodySteps:
        return BodySteps(self._context, checked_name(queue))


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
        return ThreadSteps(self)

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

    __slots__ = ("_context", "_queue")

    def __init__(self, context: ThreadContext, queue: str = "") -> None:
        self._context = context
        self._queue = queue

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        context, spec = self._context, spec_of(function)
        return context._call(lambda: context._ctx.call_step(spec, args, kwargs, self._queue))

    def on(self, *, queue: str) -> ThreadSteps:
        return ThreadSteps(self._context, checked_name(queue, "a queue"))


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


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    with sys_exit_guard():
        return await awaitable
