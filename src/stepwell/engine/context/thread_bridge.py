"""ThreadBridge: runs workflow code that is a plain function in a thread; its ctx calls cross to the loop.

Each call runs on the loop as a turn of the workflow, and the thread waits for its result.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine, Iterable
from threading import get_ident
from typing import Any

from stepwell.domain.new_run import NO_INPUT
from stepwell.engine.context.context import RunContext, RunSteps
from stepwell.engine.run.children import Child
from stepwell.engine.run.workflow_loop import outside

Make = Callable[[], Any]
Reply = concurrent.futures.Future[Any]

_VERBS = {
    *("now", "random", "uuid", "patched", "publish", "progress", "save", "continue_as_new"),
    *("webhook", "delivery", "sleep", "signal", "event", "approval", "map", "run", "document"),
}


class ThreadBridge:
    """`enter(make, reply)` is called on the loop: it runs `make` as a turn, and answers `reply`."""

    __slots__ = ("_enter", "_loop", "thread")

    def __init__(self, loop: asyncio.AbstractEventLoop, enter: Callable[[Make, Reply], None]) -> None:
        self._loop = loop
        self._enter = enter
        self.thread = 0

    def begin(self) -> None:
        """The code begins, on this thread."""
        self.thread = get_ident()

    def call(self, make: Make) -> Any:
        if get_ident() != self.thread:  # the loop's own thread would wait for itself
            raise outside()
        reply: Reply = concurrent.futures.Future()
        self._loop.call_soon_threadsafe(self._enter, make, reply)
        return reply.result()


async def turn(make: Make) -> Any:
    result = make()
    return await result if isinstance(result, Coroutine) else result


class ThreadContext:
    """The context of a plain function: the same verbs, without `await`."""

    def __init__(self, bridge: ThreadBridge, ctx: RunContext, *, attempt: int) -> None:
        self._bridge = bridge
        self._ctx = ctx
        self.run_id = ctx.run_id
        self.key = ctx.key
        self.attempt = attempt

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _VERBS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        bridge, verb = self._bridge, getattr(self._ctx, name)
        return lambda *args, **kwargs: bridge.call(lambda: verb(*args, **kwargs))

    @property
    def step(self) -> ThreadSteps:
        return ThreadSteps(self._bridge, self._ctx.step)

    def start(self, workflow: Any, input: Any = NO_INPUT, **options: Any) -> ThreadChild:
        child = self._bridge.call(lambda: self._ctx.start(workflow, input, **options))
        return ThreadChild(self._bridge, child)

    def all(self, calls: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Steps at once: `ctx.all([(charge, order), (notify, user)])`."""
        return list(self._bridge.call(lambda: self._ctx.all(*(self._ctx.step(*call) for call in calls))))


class ThreadSteps:
    """`ctx.step(fn, *args)` of a plain function."""

    __slots__ = ("_bridge", "_caller")

    def __init__(self, bridge: ThreadBridge, caller: RunSteps) -> None:
        self._bridge = bridge
        self._caller = caller

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return self._bridge.call(lambda: self._caller(function, *args, **kwargs))

    def on(self, *, queue: str) -> ThreadSteps:
        return ThreadSteps(self._bridge, self._caller.on(queue=queue))


class ThreadChild:
    """A started child; `child.result()` waits for its result."""

    def __init__(self, bridge: ThreadBridge, child: Child) -> None:
        self._bridge = bridge
        self._child = child
        self.id = child.id

    def result(self) -> Any:
        return self._bridge.call(self._child.result)
