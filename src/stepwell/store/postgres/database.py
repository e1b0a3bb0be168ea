"""Database: what the parts of the store share: connections, statements, time, and transactions."""

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
    *("starts", "commits", "cancel_retry", "messages", "claims", "workers", "remote_steps"),
    *("reads", "definitions", "archive", "limits", "rates", "access", "step_logs", "holds", "search"),
    *("secrets", "triggers", "records", "notifications", "maintenance"),
)

# While one batch is being written, Python prepares the next. Batches of 50 one-event commits on two shared
# cores: two at once wrote 16,400/s, one wrote 13,000/s (medians of 60 short bursts).
COMMITS_AT_ONCE = 2
STARTS_AT_ONCE = 2


def in_schema(text: str, schema: str) -> str:
    """Put in the schema's name. The SQL is written for the default one, so that psql can run it as it is."""
    return text if schema == DEFAULT_SCHEMA else text.replace(f"{DEFAULT_SCHEMA}.", f'"{schema}".')


def statements(schema: str) -> dict[str, str]:
    return {name: in_schema(text, schema) for name, text in queries.load(PACKAGE, *FILES).items()}


class Database:
    """Connections by kind of work, statements by name, the clock, and transactions.

    A kind of work never waits for the connections of another; a process that runs workflows has twelve. A
    slot connects when it is first used, so a client that only starts runs has one connection. On a full
    server the slots share the connections there are.
    """

    def __init__(self, dsn: str, *, clock: Callable[[], float] | None = None) -> None:
        self.address: Address = parse(dsn)
        self._clock = clock
        self.sql = statements(self.address.schema)
        self.budget = ConnectionBudget(self.address, ENGINE_SETTINGS, keeps=1)
        self.commit_slots = ConnectionSlots(self.budget, COMMITS_AT_ONCE)
        self.reach_slots = ConnectionSlots(self.budget, COMMITS_AT_ONCE)  # these wait for tickets of others
        self.start_slots = ConnectionSlots(self.budget, STARTS_AT_ONCE)
        self.deliver_slots = ConnectionSlots(self.budget, 1)
        self.claim_slots = ConnectionSlots(self.budget, 1)
        self.lease_slots = ConnectionSlots(self.budget, 1)  # a heartbeat must not queue after slow reads
        self.side_slots = ConnectionSlots(self.budget, 3)  # everything else: reads, requests by people
        self.rated_slots = ConnectionSlots(self.budget, 1)  # waiting for a window holds up no other start
        self.all_slots = (
            *(self.commit_slots, self.reach_slots, self.start_slots, self.deliver_slots),
            *(self.claim_slots, self.lease_slots, self.side_slots, self.rated_slots),
        )

    def now(self) -> float | None:
        """The first argument of every statement; None: the database's own clock."""
        return self._clock() if self._clock is not None else None

    def write(
        self,
        name: str,
        slots: ConnectionSlots,
        work: Work[T],
        *,
        single: bool = False,
        again: bool = True,
        on_doubt: Callable[[], None] | None = None,
        own_task: bool = False,
    ) -> Coroutine[Any, Any, T]:
        """Do the work in one transaction of that name; `single`: it sends one statement only."""
        whole = in_transaction(name, work, single=single)
        return slots.run(whole, again=again, on_doubt=on_doubt, own_task=own_task)


def in_transaction(name: str, work: Work[T], *, single: bool) -> Work[T]:
    """Put the work between BEGIN and COMMIT with four failpoints; else a single statement needs neither."""
    if single and failpoints.hit is None:
        return work

    async def run(connection: Connection) -> T:
        hit(name, "before")
        await connection.execute("BEGIN")
        try:
            result = await work(connection)
            hit(name, "mid")
        except asyncio.CancelledError:
            connection.terminate()  # the caller gave up: do not wait for a server that may not answer
            raise
        except BaseException:
            await roll_back(connection)
            raise
        await connection.execute("COMMIT")
        hit(name, "after", "ambiguous")
        return result

    return run


async def roll_back(connection: Connection) -> None:
    try:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
    except Exception:
        connection.terminate()  # the server rolls back when the connection ends


def hit(name: str, *moments: str) -> None:
    """Failpoints: a fault before the commit is a failure, one after it a lost answer."""
    if failpoints.hit is None:
        return
    for moment in moments:
        try:
            failpoints.hit(f"{name}.{moment}")
        except failpoints.Injected as fault:
            if moment in {"before", "mid"}:
                raise StoreUnavailable(f"injected at {fault}") from fault
            raise OutcomeUnknown(f"injected at {fault}") from fault
