"""ThreadPool: a bounded pool that abandons a hung call instead of waiting for it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from stepwell.engine.execution.exit_guard import exit_forked_child, sys_exit_as_error

ThreadCall = tuple[Callable[[], Any], asyncio.AbstractEventLoop]


class ThreadPool:
    """At most `limit` calls at once; an abandoned one no longer counts, so it cannot starve the rest."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._lock = threading.Condition()
        self._jobs: OrderedDict[asyncio.Future[Any], ThreadCall] = OrderedDict()  # thousands may be withdrawn
        self._idle = 0
        self._count = 0  # threads that are not abandoned
        self._closed = False
        self._process = os.getpid()

    async def run(self, call: Callable[[], Any]) -> Any:
        """The call's result; cancelling abandons the thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(future, (call, loop))
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled():  # otherwise the call itself raised it
                self._abandon(future)
            raise

    def _put(self, future: asyncio.Future[Any], job: ThreadCall) -> None:
        with self._lock:
            self._jobs[future] = job
            if self._idle >= len(self._jobs):
                self._lock.notify()
            elif self._count < self._limit:
                self._count += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _abandon(self, future: asyncio.Future[Any]) -> None:
        with self._lock:
            if self._jobs.pop(future, None) is not None:
                return  # it never began
            self._count -= 1
            if self._jobs and self._count < self._limit:
                self._count += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
                while not self._jobs and not self._closed:
                    self._lock.wait()
                self._idle -= 1
                if not self._jobs:
                    return
                future, (call, loop) = self._jobs.popitem(last=False)
            result, error = None, None
            try:
                result = call()
            except BaseException as failure:
                error = failure
            if os.getpid() != self._process:  # the call forked, and this is the child
                exit_forked_child(error)
            if future.cancelled() or loop.is_closed():
                return  # abandoned: another thread has its place
            loop.call_soon_threadsafe(_settle, future, result, error)
            del call, future, result, error

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._lock.notify_all()


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration | KeyboardInterrupt):
        # A future refuses StopIteration. KeyboardInterrupt, awaited, would end the process, and it cannot be
        # a real Ctrl-C: that never reaches a thread.
        future.set_exception(RuntimeError(f"the function raised {error!r}"))
    else:
        future.set_exception(sys_exit_as_error(error))
