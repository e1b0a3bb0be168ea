"""ConnectionSlots: a few slots for one kind of work, which reconnect by themselves.

A slot does one piece of work at a time. A statement that was sent is not cancelled with its caller, because
nobody could know whether a cancelled COMMIT happened. Only work that can be repeated and is then recognised
(starts, deliveries, commits) runs without a task in between. Every statement has a deadline on the server
(statement_timeout) and a later one here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from stepwell.errors import OutcomeUnknown, StoreUnavailable
from stepwell.store.base import closed
from stepwell.store.postgres.pool.budget import SLOT_SECONDS, ConnectionBudget
from stepwell.store.postgres.pool.connection import ANSWER_SECONDS, Connection, pauses
from stepwell.store.postgres.pool.errors import FaultKind, Refused, fault_kind, translated
from stepwell.store.postgres.pool.slot import ConnectionSlot

T = TypeVar("T")
Work = Callable[[Connection], Awaitable[T]]


class ConnectionSlots:
    def __init__(self, budget: ConnectionBudget, count: int) -> None:
        self._budget = budget
        self._address = budget.address
        self.count = count
        self._idle = budget.slots(count)
        self._slots = list(self._idle)
        self._queue: deque[asyncio.Future[ConnectionSlot]] = deque()  # of callers that wait for a slot
        self._under_way: set[asyncio.Task[Any]] = set()

    @property
    def busy(self) -> int:
        return self.count - len(self._idle)

    @property
    def waiting(self) -> int:
        """Return how many callers wait for a slot."""
        return len(self._queue)

    def run(
        self,
        work: Work[T],
        *,
        again: bool = True,
        on_doubt: Callable[[], None] | None = None,
        own_task: bool = False,
    ) -> Coroutine[Any, Any, T]:
        """Do the work on a free connection, again after deadlocks.

        After a lost connection it is repeated if that is harmless (`again`; `on_doubt` is called first), else
        OutcomeUnknown is raised. StoreUnavailable: nothing was sent. A caller in a task that nobody cancels
        (`own_task`) saves three passes of the event loop.
        """
        run = self._run(work, again, on_doubt)
        return run if own_task else self._apart(run)

    async def read(self, work: Work[T], *, own_task: bool = False) -> T:
        """Do the same for work that only reads: after a lost answer nothing is in doubt."""
        try:
            return await self.run(work, own_task=own_task)
        except OutcomeUnknown as error:
            raise StoreUnavailable(error.message, database=self._address.redacted) from error.__cause__

    async def _apart(self, run: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(run)
        self._under_way.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    async def run_once(self, work: Work[T]) -> T:
        """Do the work without a second try: while opening, a quick answer is worth more."""
        slot = await self.take()
        try:
            return await work(await slot.connection())
        except BaseException:
            slot.drop()
            raise
        finally:
            self.give_back(slot)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # mark it as retrieved: its caller may be gone

    async def _run(self, work: Work[T], again: bool, on_doubt: Callable[[], None] | None) -> T:
        slot = self._idle.pop() if self._idle else await self.take()
        try:
            if slot.closed:
                raise closed(database=self._address.redacted)
            return await self._try(slot, work, again, on_doubt)
        except asyncio.CancelledError:
            slot.drop()  # the loop is being closed: the outcome is unknown
            raise
        finally:
            self.give_back(slot)

    async def _try(
        self, slot: ConnectionSlot, work: Work[T], again: bool, on_doubt: Callable[[], None] | None
    ) -> T:
        in_doubt: Exception | None = None
        pause = pauses()
        while True:
            try:
                connection = await slot.connection()
            except StoreUnavailable as error:
                failure: Exception = error
            except Exception as error:
                raise translated(error, self._address.redacted) from error
            else:
                try:
                    return await work(connection)
                except Refused:  # before it was sent
                    raise
                except Exception as error:
                    kind = fault_kind(error)
                    if kind is FaultKind.REFUSED:
                        raise Refused(str(error)) from error
                    if kind is FaultKind.OTHER:
                        raise translated(error, self._address.redacted) from error
                    failure = error
                if kind is FaultKind.BROKEN:
                    slot.drop()
                    in_doubt = failure
                    if on_doubt is not None:
                        on_doubt()
            seconds = next(pause, None)
            if in_doubt is not None and (seconds is None or not again):
                raise OutcomeUnknown(
                    f"PostgreSQL did not answer: {in_doubt}", database=self._address.redacted
                ) from in_doubt
            if seconds is None:
                if isinstance(failure, StoreUnavailable):  # no connection: its text says why, and what to do
                    raise failure
                raise StoreUnavailable(
                    f"PostgreSQL did not accept it: {failure}", database=self._address.redacted
                ) from failure
            await asyncio.sleep(seconds)

    async def take(self) -> ConnectionSlot:
        if self._idle:  # then nobody waits
            return self._idle.pop()
        free: asyncio.Future[ConnectionSlot] = asyncio.get_running_loop().create_future()
        self._queue.append(free)
        try:
            async with asyncio.timeout(SLOT_SECONDS):
                return await free
        except BaseException as error:
            if free.done() and not free.cancelled():  # it came just as we gave up
                self.give_back(free.result())
            elif free in self._queue:
                self._queue.remove(free)
            if isinstance(error, TimeoutError):
                raise StoreUnavailable(
                    f"all {self.count} connections for this kind of work are busy",
                    database=self._address.redacted,
                ) from error
            raise

    def give_back(self, slot: ConnectionSlot) -> None:
        if slot.closed:
            slot.drop()
        elif self._budget.queue and slot.connected:  # the server is full, and another kind of work waits
            self._budget.pass_on(slot.give_up())
        while self._queue:
            waiter = self._queue.popleft()
            if not waiter.done():
                waiter.set_result(slot)
                return
        self._idle.append(slot)

    async def close(self) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=ANSWER_SECONDS)
        for slot in self._slots:
            slot.closed = True  # a caller that has it, or still gets it, cannot connect
        for slot in self._idle:
            await slot.close()

    def open(self) -> None:
        """Make the slots usable again after close(), or after their loop was closed."""
        for slot in self._slots:
            slot.open()
