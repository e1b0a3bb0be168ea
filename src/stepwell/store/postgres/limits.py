"""Limits of the PostgreSQL store: tickets of lanes, taken under the locks of their limits.

A claimer of a lane's tickets holds an advisory lock on each of the lane's limits, taken in one order, and
counts in a later statement than the one that locked, so that it sees what the claimer before it took.
Releasing a ticket needs no lock: it only frees a slot. Nobody waits for a ticket while holding these locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from stepwell.domain.admission import (
    FreeSlots,
    WaitingTicket,
    clear_blocked_owners,
    counts_suspended,
    select_tickets,
)
from stepwell.domain.commit import ENDING_PRIORITY, ClaimRequest, NewRun
from stepwell.domain.ids import LeaseId
from stepwell.domain.lanes import LaneUse, LimitCoverage, coverage_of, lanes_for
from stepwell.domain.limits import Limit, LimitScope
from stepwell.domain.scope_holds import ScopeHold
from stepwell.errors import OutcomeUnknown
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.pool.connection import Connection

PASSED_OVER_SECONDS = 0.005  # due but row-locked: somebody is taking or waking it right now
LANES_AT_ONCE = 1000  # assigned in one claim for each kind of work; the next claim continues


class TakenTickets(NamedTuple):
    rows: Sequence[Any]
    next_in: float | None
    blocked: bool


FREE = FreeSlots((), {})  # only to list the limits that a lane has of its own
NOTHING = TakenTickets((), None, False)


class PgLimits:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._sql = db.sql

    async def claim_within_limits(self, request: ClaimRequest, leases: Sequence[LeaseId]) -> TakenTickets:
        """Claim tickets with and without a lane, in one order."""

        async def take(connection: Connection) -> TakenTickets:
            worker = await connection.fetchrow(
                self._sql["hold_worker"], self._db.now(), request.worker, list(leases)
            )
            if worker is None:
                return NOTHING
            now, repeated = worker
            if repeated:  # after a lost connection: the caller asks again with these leases and gets them
                raise OutcomeUnknown("tickets were claimed, but the answer was lost")
            table = _limits(await connection.fetch(self._sql["read_limits"]))
            holds = [ScopeHold(*row) for row in await connection.fetch(self._sql["active_holds"])]
            coverage = coverage_of(table, holds)
            more = await self._give_lanes(connection, request, coverage) if coverage else False
            taken = await self._take(connection, request, leases, table, coverage=coverage, now=now)
            return taken._replace(next_in=0.0) if more else taken

        return await self._db.write("claim", self._db.claim_slots, take)

    async def owned_within_limits(
        self, connection: Connection, runs: Sequence[NewRun], lanes: Iterable[str]
    ) -> Sequence[NewRun]:
        """Return the runs; their starter owns those of these lanes that have a free slot."""
        locks = {_lock(self._db.address.schema, limit.scope) for lane in lanes for limit in FREE.limits(lane)}
        await connection.execute(self._sql["lock_limits"], sorted(locks))
        slots = await self._slots(connection, (), lanes)
        waiting = await connection.fetchval(self._sql["any_due_in_lanes"], self._db.now())
        return clear_blocked_owners(runs, slots, waiting=waiting)

    async def _give_lanes(
        self, connection: Connection, request: ClaimRequest, coverage: LimitCoverage
    ) -> bool:
        """Assign lanes to runs within reach of a limit that was set; True: there are more."""
        await connection.execute(
            self._sql["give_lanes_owned"], coverage.queues, coverage.workflows, coverage.everything
        )
        kinds = [kind for kind in _kinds(request) if coverage.covers(*kind)]
        if not kinds:
            return False
        queues, needs = zip(*kinds, strict=True)
        assigned = await connection.fetch(
            self._sql["give_lanes_open"], queues, needs, request.solo, LANES_AT_ONCE
        )
        return len(assigned) >= LANES_AT_ONCE

    async def _take(
        self,
        connection: Connection,
        request: ClaimRequest,
        leases: Sequence[LeaseId],
        table: Sequence[Limit],
        *,
        coverage: LimitCoverage,
        now: float,
    ) -> TakenTickets:
        wanted = len(leases)
        lanes = lanes_for(
            request, [row[0] for row in await connection.fetch(self._sql["open_lanes"], request.solo)]
        )
        slots = await self._slots(connection, table, lanes, coverage.holds)
        # A full lane needs no lock: none of its tickets are taken.
        roomy = {lane for lane in lanes if not slots.closed(lane)}
        locks = {
            _lock(self._db.address.schema, limit.scope) for lane in roomy for limit in slots.limits(lane)
        }
        if locks:
            await connection.execute(self._sql["lock_limits"], sorted(locks))
            slots = await self._slots(connection, table, lanes, coverage.holds)
        waiting = await self._waiting_in_lanes(connection, request, lanes, roomy, wanted)
        able = [ticket for ticket in waiting if ticket.lane in roomy or ticket.ending or ticket.due_at > now]
        blocked = any(t.due_at <= now and t.lane not in roomy and not t.ending for t in waiting)
        able += await self._waiting_without_lane(connection, request, coverage, wanted)
        chosen = select_tickets(able, slots, now=now, wanted=wanted, fresh=request.fresh)
        taken: Sequence[Any] = ()
        next_in = chosen.next_in(now)
        if chosen.tickets:
            taken = await connection.fetch(
                self._sql["take_tickets"],
                request.worker,
                list(leases),
                [ticket.run_id for ticket in chosen.tickets],
                [ticket.path for ticket in chosen.tickets],
                now,
            )
            if len(taken) < len(chosen.tickets):
                next_in = PASSED_OVER_SECONDS if next_in is None else min(next_in, PASSED_OVER_SECONDS)
        return TakenTickets(taken, next_in, blocked or chosen.blocked)

    async def _waiting_in_lanes(
        self,
        connection: Connection,
        request: ClaimRequest,
        lanes: Sequence[str],
        roomy: set[str],
        wanted: int,
    ) -> list[WaitingTicket]:
        if not lanes:
            return []
        rows = await connection.fetch(
            self._sql["lane_tickets"],
            lanes,
            list(dict.fromkeys(request.needs)),
            [wanted + 1 if lane in roomy else 1 for lane in lanes],
            request.solo,
            ENDING_PRIORITY,
            wanted + 1,
        )
        return [
            WaitingTicket(lane, started, priority, due_at, run_id, path, ending)
            for lane, started, priority, due_at, run_id, path, ending in rows
        ]

    async def _waiting_without_lane(
        self, connection: Connection, request: ClaimRequest, coverage: LimitCoverage, wanted: int
    ) -> list[WaitingTicket]:
        """Tickets that need no lane. Those within reach of a limit get one in the next claim."""
        kinds = [kind for kind in _kinds(request) if not coverage.covers(*kind)]
        if not kinds:
            return []
        queues, needs = zip(*kinds, strict=True)
        rows = await connection.fetch(self._sql["open_tickets"], queues, needs, request.solo, wanted + 1)
        return [
            WaitingTicket("", started, priority, due_at, run_id, path, False)
            for started, priority, due_at, run_id, path in rows
        ]

    async def _slots(
        self,
        connection: Connection,
        table: Sequence[Limit],
        lanes: Iterable[str],
        holds: Sequence[ScopeHold] = (),
    ) -> FreeSlots:
        leased = dict(await connection.fetch(self._sql["leased_lanes"]))
        resting = {}
        if counts_suspended(table, lanes):
            resting = dict(await connection.fetch(self._sql["resting_lanes"]))
        return FreeSlots(table, leased, resting, holds)

    async def put_limit(self, limit: Limit) -> None:
        values = (*limit.scope, limit.limit, limit.hold, limit.by)

        async def work(connection: Connection) -> None:
            await connection.execute(self._sql["put_limit"], *values)

        await self._db.write("put_limit", self._db.side_slots, work, single=True)

    async def drop_limit(self, scope: LimitScope) -> bool:
        async def work(connection: Connection) -> bool:
            return await connection.fetchval(self._sql["drop_limit"], *scope) is not None

        return await self._db.write("drop_limit", self._db.side_slots, work, single=True)

    async def read_limits(self) -> Sequence[Limit]:
        async def work(connection: Connection) -> list[Limit]:
            return _limits(await connection.fetch(self._sql["read_limits"]))

        return await self._db.side_slots.read(work)

    async def read_lanes(self) -> Sequence[LaneUse]:
        async def work(connection: Connection) -> list[LaneUse]:
            leased = dict(await connection.fetch(self._sql["leased_lanes"]))
            resting = dict(await connection.fetch(self._sql["resting_lanes"]))
            return [LaneUse(at, leased.get(at, 0), resting.get(at, 0)) for at in sorted(leased | resting)]

        return await self._db.side_slots.read(work)


def _kinds(request: ClaimRequest) -> list[tuple[str, str]]:
    """The kinds of work that this worker does, as queue and needs."""
    return [(q, n) for q in dict.fromkeys(request.queues) for n in dict.fromkeys(request.needs)]


def _limits(rows: Iterable[Any]) -> list[Limit]:
    return [
        Limit(kind=kind, workspace=workspace, name=name, limit=limit, hold=hold, by=by)
        for kind, workspace, name, limit, hold, by in rows
    ]


def _lock(schema: str, scope: LimitScope) -> int:
    """The number of a limit's lock. Locks belong to the whole database, so the schema is part of it."""
    name = "\0".join(("stepwell", schema, *scope)).encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big", signed=True)
