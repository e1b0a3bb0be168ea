"""CallQueue: calls on their way to a database thread and back.

The thread takes everything that waits at once; the answers go back with one call into each event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from stepwell.store.sqlite.session import Session

L = TypeVar("L")
T = TypeVar("T")
P = ParamSpec("P")

Work = Callable[[Session, Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Verb(Generic[L, T]):
    """An operation of a database thread. `work` takes the loads of several calls and answers each.

    `apart` is tried instead if a value could not be written, so that only its member of the call fails.
    `alone`: never in one transaction with anything else. `light` is tried first if no waiting call needs
    a transaction: one statement outside of one. It returns None if there is more to do. `unsynced`: its
    transaction need not reach the disk by itself; it does so with the next one that must.
    """

    name: str
    work: Callable[[Session, Sequence[L]], Sequence[T]]
    apart: Callable[[Session, Sequence[L]], Sequence[T]] | None = None
    alone: bool = False
    light: Callable[[Session, L], T | None] | None = None
    unsynced: bool = False


def each(
    name: str,
    do: Callable[Concatenate[Session, P], T],
    *,
    alone: bool = False,
    light: Callable[Concatenate[Session, P], T | None] | None = None,
    unsynced: bool = False,
) -> Verb[Any, T]:
    """A verb that does one call after the other; a load is the call's arguments."""

    def work(session: Session, loads: Sequence[Any]) -> list[T]:
        return [do(session, *args, **kwargs) for args, kwargs in loads]

    def try_light(session: Session, load: Any) -> T | None:
        args, kwargs = load
        assert light is not None
        return light(session, *args, **kwargs)

    return Verb(name, work, alone=alone, light=try_light if light else None, unsynced=unsynced)


@dataclass(slots=True, eq=False)
class Operation:
    verb: Verb[Any, Any]
    load: Any
    future: asyncio.Future[Any]
    submitted: float  # on the monotonic clock
    answer: Any = None
    error: BaseException | None = None


class RolledBack(Exception):
    """Raised by work that is alone: roll back and return this answer, or raise this error unchanged."""

    def __init__(self, answer: Any = None, error: BaseException | None = None) -> None:
        super().__init__()
        self.answer = answer
        self.error = error


class CallQueue:
    """Operations that wait for a thread."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Operation | None] = SimpleQueue()

    def submit(self, verb: Verb[L, T], load: L) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(Operation(verb, load, future, monotonic()))
        return future

    def __len__(self) -> int:
        return self._queue.qsize()

    def stop(self) -> None:
        """Stop the thread after the operations that wait now."""
        self._queue.put(None)

    def take(self) -> tuple[list[Operation], bool]:
        """Wait for an operation, then take all that wait; and whether to stop after them."""
        operations: list[Operation] = []
        item = self._queue.get()
        while item is not None:
            operations.append(item)
            try:
                item = self._queue.get_nowait()
            except Empty:
                return operations, False
        return operations, True


def answer(operations: Iterable[Operation]) -> None:
    """Answer the callers, with one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Operation]] = {}
    for operation in operations:
        by_loop.setdefault(operation.future.get_loop(), []).append(operation)
    for loop, done in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, done)
        except (
            Exception
        ):  # that loop is closed: nobody waits there, and the other loops must get their answers
            pass


def _resolve(operations: Sequence[Operation]) -> None:
    for operation in operations:
        if operation.future.done():  # the caller was cancelled; its operation happened all the same
            continue
        if operation.error is not None:
            operation.future.set_exception(operation.error)
        else:
            operation.future.set_result(operation.answer)
