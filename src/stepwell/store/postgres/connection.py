"""Lanes: dedicated connections for one kind of work, which connect again by themselves.

A lane carries one piece of work at a time. What people ask for is not cancelled once it was sent: a
caller who gives up leaves the statement to its end, because nobody could tell whether a cancelled COMMIT
happened. Only what may be asked again, and is then recognised (starts, deliveries, commits), goes without
a task between. Every statement has a deadline on the server (statement_timeout) and a later one here.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeAlias, TypeVar

import asyncpg

from stepwell.errors import OutcomeUnknown, StoreUnavailable
from stepwell.store.postgres.address import Address
from stepwell.store.postgres.faults import Fault, Refused, fault, translated

Connection: TypeAlias = Any  # asyncpg.Connection; asyncpg has no types
T = TypeVar("T")
Work = Callable[[Connection], Awaitable[T]]

CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 15.0
ANSWER_SECONDS = STATEMENT_SECONDS + 5.0  # the server gives up first, and says so
LANE_SECONDS = 60.0  # waiting for a free lane
TRIES = 6
FIRST_PAUSE = 0.05  # seconds; doubles, with jitter: about 1.5 s of pauses in all

REPLAN_SECONDS = 1.0
REPLAN_USES = 64

_KEEPALIVE = {
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
# Lanes run a few known statements, each meant to go through an index row by row. Planning the largest
# takes 0.52 ms and running it for ten commits 0.39 ms, so plans are generic; and because a plan made
# while the tables were small would stay, what looks cheap only on small tables (reading all of one,
# joining by sorting or hashing) is not offered to the planner.
LANE_SETTINGS = _KEEPALIVE | {
    "application_name": "stepwell",
    "jit": "off",
    "statement_timeout": f"{STATEMENT_SECONDS * 1000:.0f}",
    "lock_timeout": "3000",
    "idle_in_transaction_session_timeout": "5000",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
# A transactional step runs the user's statements: they get the server's own planner and time limits, and
# may pause between statements (the step's timeout is what ends them). The limit here only catches a
# process that froze inside one.
USER_SETTINGS = _KEEPALIVE | {
    "application_name": "stepwell step",
    "idle_in_transaction_session_timeout": "900000",
}
# PgBouncer passes no other setting on; there the role should have jit = off and the timeouts.
POLL_SETTINGS = {"application_name": "stepwell"}


async def connect(address: Address, settings: dict[str, str]) -> Connection:
    try:
        return await asyncpg.connect(
            address.dsn,
            timeout=CONNECT_SECONDS,
            command_timeout=None if settings is USER_SETTINGS else ANSWER_SECONDS,
            statement_cache_size=0 if address.poll_only else 200,
            max_cached_statement_lifetime=0,
            max_cacheable_statement_size=0,
            server_settings=POLL_SETTINGS if address.poll_only else settings,
        )
    except Exception as error:
        raise translated(error, address.shown) from error


def closed(address: Address) -> StoreUnavailable:
    hint = "open it first, and use it before close()"
    return StoreUnavailable("the store is closed", hint=hint, database=address.shown)


def pauses() -> Iterator[float]:
    pause = FIRST_PAUSE
    for _ in range(TRIES - 1):
        yield pause * (0.5 + random.random())
        pause *= 2


class Lane:
    """One connection, made when it is first needed."""

    __slots__ = ("_address", "_connection", "_loop", "_planned_at", "_settings", "_uses", "closed")

    def __init__(self, address: Address, settings: dict[str, str]) -> None:
        self._address = address
        self._settings = settings
        self._connection: Connection = None
        self._loop: asyncio.AbstractEventLoop | None = None  # of the connection
        self.closed = False
        self._planned_at = 0.0
        self._uses = 0

    async def connection(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            if self.closed:
                raise closed(self._address)
            self._connection = await connect(self._address, self._settings)
            self._loop = asyncio.get_running_loop()
            self._planned_at = self._loop.time()
            self._uses = 0
        self._uses += 1
        if self._uses >= REPLAN_USES and not self._address.poll_only:
            await self._plan_anew()
        return self._connection

    async def _plan_anew(self) -> None:
        """Forget plans now and then: those made on empty tables are bad for full ones.

        The server does so itself when it analyzes a table, which may come a minute and 100,000
        rows late. Planning both commit statements anew takes 0.75 ms.
        """
        now = asyncio.get_running_loop().time()
        if now - self._planned_at > REPLAN_SECONDS:
            self._planned_at, self._uses = now, 0
            await self._connection.execute("DISCARD PLANS")

    def open(self) -> None:
        self.closed = False
        if self._loop is not None and self._loop.is_closed():
            self._connection = self._loop = None  # it ended with its loop

    async def clean(self) -> None:
        """After somebody else used it: no transaction, no setting, no cursor stays."""
        try:
            if self._connection is not None and not self._connection.is_closed():
                await self._connection.reset(timeout=ANSWER_SECONDS)
        except Exception:
            self.drop()

    def drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            try:
                await connection.close(timeout=2.0)
            except Exception:
                connection.terminate()


class Lanes:
    """A few connections for one kind of work."""

    def __init__(self, address: Address, count: int, settings: dict[str, str] = LANE_SETTINGS) -> None:
        self._address = address
        self._count = count
        self._lanes = [Lane(address, settings) for _ in range(count)]
        self._idle = list(self._lanes)
        self._queue: deque[asyncio.Future[Lane]] = deque()  # of those who wait for one
        self._under_way: set[asyncio.Task[Any]] = set()

    def run(
        self,
        work: Work[T],
        *,
        again: bool = True,
        on_doubt: Callable[[], None] | None = None,
        own_task: bool = False,
    ) -> Coroutine[Any, Any, T]:
        """Do the work on a free connection, again after deadlocks.

        After a lost connection it is done again if that is harmless (`again`; `on_doubt` is told
        first), else OutcomeUnknown is raised. StoreUnavailable: nothing was sent. A caller in a task
        that nobody cancels (`own_task`) saves three passes of the event loop.
        """
        run = self._run(work, again, on_doubt)
        return run if own_task else self._apart(run)

    async def _apart(self, run: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(run)
        self._under_way.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    async def run_once(self, work: Work[T]) -> T:
        """Without a second try: for opening, where an answer now is worth more."""
        lane = await self.take()
        try:
            return await work(await lane.connection())
        except BaseException:
            lane.drop()
            raise
        finally:
            self.give_back(lane)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # seen: its caller may have gone

    async def _run(self, work: Work[T], again: bool, on_doubt: Callable[[], None] | None) -> T:
        lane = self._idle.pop() if self._idle else await self.take()
        try:
            if lane.closed:
                raise closed(self._address)
            return await self._tried(lane, work, again, on_doubt)
        except asyncio.CancelledError:
            lane.drop()  # the loop is being closed: what was sent is unknown
            raise
        finally:
            self.give_back(lane)

    async def _tried(self, lane: Lane, work: Work[T], again: bool, on_doubt: Callable[[], None] | None) -> T:
        in_doubt: Exception | None = None
        pause = pauses()
        while True:
            try:
                connection = await lane.connection()
            except StoreUnavailable as error:
                trouble: Exception = error
            except Exception as error:
                raise translated(error, self._address.shown) from error
            else:
                try:
                    return await work(connection)
                except Refused:  # before it was sent
                    raise
                except Exception as error:
                    kind = fault(error)
                    if kind is Fault.REFUSED:
                        raise Refused(str(error)) from error
                    if kind is Fault.OTHER:
                        raise translated(error, self._address.shown) from error
                    trouble = error
                if kind is Fault.BROKEN:
                    lane.drop()
                    in_doubt = trouble
                    if on_doubt is not None:
                        on_doubt()
            seconds = next(pause, None)
            if in_doubt is not None and (seconds is None or not again):
                raise OutcomeUnknown(
                    f"PostgreSQL did not answer: {in_doubt}", database=self._address.shown
                ) from in_doubt
            if seconds is None:
                if isinstance(trouble, StoreUnavailable):  # no connection: it says why, and what to do
                    raise trouble
                raise StoreUnavailable(
                    f"PostgreSQL did not take it: {trouble}", database=self._address.shown
                ) from trouble
            await asyncio.sleep(seconds)

    async def take(self) -> Lane:
        if self._idle:  # then nobody waits
            return self._idle.pop()
        given: asyncio.Future[Lane] = asyncio.get_running_loop().create_future()
        self._queue.append(given)
        try:
            async with asyncio.timeout(LANE_SECONDS):
                return await given
        except BaseException as error:
            if given.done() and not given.cancelled():  # just as we left
                self.give_back(given.result())
            elif given in self._queue:
                self._queue.remove(given)
            if isinstance(error, TimeoutError):
                raise StoreUnavailable(
                    f"all {self._count} connections for this are busy", database=self._address.shown
                ) from error
            raise

    def give_back(self, lane: Lane) -> None:
        if lane.closed:
            lane.drop()
        while self._queue:
            next_one = self._queue.popleft()
            if not next_one.done():
                next_one.set_result(lane)
                return
        self._idle.append(lane)

    async def close(self) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=ANSWER_SECONDS)
        for lane in self._lanes:
            lane.closed = True  # who still has it, or comes for it, connects no more
        for lane in self._idle:
            await lane.close()

    def open(self) -> None:
        """Again, after it was closed, or after its loop was."""
        for lane in self._lanes:
            lane.open()
