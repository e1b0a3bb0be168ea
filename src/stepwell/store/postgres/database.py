"""Session: what the parts of the store share: connections, statements, time, and transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from stepwell import failpoints
from stepwell.errors import OutcomeUnknown, StoreUnavailable
from stepwell.store import queries
from stepwell.store.postgres.pool.budget import ConnectionBudget
from stepwell.store.postgres.pool.connection import ENGINE_SETTINGS, Connection
from stepwell.store.postgres.pool.dsn import DEFAULT_SCHEMA, Address, parse
from stepwell.store.postgres.pool.slots import ConnectionSlots, Work

T = TypeVar("T")
PACKAGE = "stepwell.store.postgres"
FILES = (
    "queries.sql",
    "messages.sql",
    "tickets.sql",
    "limits.sql",
    "rates.sql",
    "reading.sql",
    "archive.sql",
)

# While one batch is being written Python prepares the next. Batches of 50 one-event commits, two cores
# that others used too: two at once wrote 16,400/s where one wrote 13,000/s (medians of 60 short bursts).
COMMITS_AT_ONCE = 2
STARTS_AT_ONCE = 2


def in_schema(text: str, schema: str) -> str:
    """The SQL is written for the default schema, so that it can be tried in psql as it is."""
    return text if schema == DEFAULT_SCHEMA else text.replace(f"{DEFAULT_SCHEMA}.", f'"{schema}".')


def statements(schema: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in FILES:
        found |= queries.load(PACKAGE, file)
    return {name: in_schema(text, schema) for name, text in found.items()}


class Session:
    """Lanes by kind of work, so that none waits for another: a process that runs workflows has twelve.

    They are connected when first used; a client that only starts runs has one. On a full server they share
    what connections there are.
    """

    def __init__(self, dsn: str, *, clock: Callable[[], float] | None = None) -> None:
        self._address: Address = parse(dsn)
        self._clock = clock
        self._sql = statements(self._address.schema)
        self._room = ConnectionBudget(self._address, ENGINE_SETTINGS, keeps=1)
        self._commit_lanes = ConnectionSlots(self._room, COMMITS_AT_ONCE)
        self._reach_lanes = ConnectionSlots(self._room, COMMITS_AT_ONCE)  # these wait for tickets of others
        self._start_lanes = ConnectionSlots(self._room, STARTS_AT_ONCE)
        self._deliver_lanes = ConnectionSlots(self._room, 1)
        self._claim_lanes = ConnectionSlots(self._room, 1)
        self._lease_lanes = ConnectionSlots(
            self._room, 1
        )  # behind slow reads a heartbeat would come too late
        self._side_lanes = ConnectionSlots(self._room, 3)  # the rest: reads, what people ask for

    @property
    def _all_lanes(self) -> tuple[ConnectionSlots, ...]:
        return (
            self._commit_lanes,
            self._reach_lanes,
            self._start_lanes,
            self._deliver_lanes,
            self._claim_lanes,
            self._lease_lanes,
            self._side_lanes,
        )

    def _now(self) -> float | None:
        """The first argument of every statement; None: the database's own clock."""
        return self._clock() if self._clock is not None else None

    def _write(
        self,
        name: str,
        lanes: ConnectionSlots,
        work: Work[T],
        *,
        single: bool = False,
        again: bool = True,
        on_doubt: Callable[[], None] | None = None,
        own_task: bool = False,
    ) -> Coroutine[Any, Any, T]:
        """Do the work in one transaction of that name; `single`: it sends one statement only."""
        whole = in_transaction(name, work, single=single)
        return lanes.run(whole, again=again, on_doubt=on_doubt, own_task=own_task)


def in_transaction(name: str, work: Work[T], *, single: bool) -> Work[T]:
    """The work between BEGIN and COMMIT with its four failpoints; without those one statement is enough."""
    if single and failpoints.hit is None:
        return work

    async def run(connection: Connection) -> T:
        pass_by(name, "before")
        await connection.execute("BEGIN")
        try:
            result = await work(connection)
            pass_by(name, "mid")
        except asyncio.CancelledError:
            connection.terminate()  # whoever gave up does not wait for a server that may not answer
            raise
        except BaseException:
            await rolled_back(connection)
            raise
        await connection.execute("COMMIT")
        pass_by(name, "after", "ambiguous")
        return result

    return run


async def rolled_back(connection: Connection) -> None:
    try:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
    except Exception:
        connection.terminate()  # the server rolls back when the connection ends


def pass_by(name: str, *moments: str) -> None:
    """Failpoints: a fault at the first two is a failure, one at the last two a lost answer."""
    if failpoints.hit is None:
        return
    for moment in moments:
        try:
            failpoints.hit(f"{name}.{moment}")
        except failpoints.Injected as fault:
            if moment in {"before", "mid"}:
                raise StoreUnavailable(f"injected at {fault}") from fault
            raise OutcomeUnknown(f"injected at {fault}") from fault
