"""Limits of the PostgreSQL store: tickets of lanes, taken under the locks of their limits.

Whoever takes tickets of a lane holds an advisory lock on each of its limits, taken in one order, and
counts in a later statement than the one that locked: so it sees what the one before it took. Those who
give tickets back need no lock, they only make room.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from stepwell.domain.commit import ENDING_PRIORITY, ClaimRequest
from stepwell.domain.ids import LeaseId
from stepwell.domain.limits import (
    LaneUse,
    Limit,
    Scope,
    Slots,
    Waiting,
    choose,
    lanes_for,
    rest_counts,
)
from stepwell.store.postgres.connection import Connection
from stepwell.store.postgres.session import Session

PASSED_OVER_SECONDS = 0.005  # due but row-locked at that instant: somebody is taking or waking it


class LaneTickets(NamedTuple):
    rows: Sequence[Any]
    next_in: float | None
    blocked: bool


class PostgresLimits(Session):
    async def _claim_lane_tickets(
        self, request: ClaimRequest, leases: Sequence[LeaseId], wanted: int
    ) -> LaneTickets:
        async def take(connection: Connection) -> LaneTickets:
            worker = await connection.fetch(self._sql["hold_worker"], self._now(), request.worker)
            if not worker:
                return LaneTickets((), None, False)
            return await self._take_within_limits(connection, request, leases, wanted, worker[0][0])

        return await self._write("claim_lanes", self._claim_lanes, take)

    async def _take_within_limits(
        self,
        connection: Connection,
        request: ClaimRequest,
        leases: Sequence[LeaseId],
        wanted: int,
        now: float,
    ) -> LaneTickets:
        lanes = lanes_for(
            request, [row[0] for row in await connection.fetch(self._sql["open_lanes"], request.solo)]
        )
        if not lanes:
            return LaneTickets((), None, False)
        table = _limits(await connection.fetch(self._sql["read_limits"]))
        slots = await self._slots(connection, table, lanes)
        # What is full now needs no lock: none of it is taken.
        roomy = {lane for lane in lanes if not slots.closed(lane)} if wanted else set()
        locks = {_lock(self._address.schema, limit.scope) for lane in roomy for limit in slots.limits(lane)}
        if locks:
            await connection.execute(self._sql["lock_limits"], sorted(locks))
            slots = await self._slots(connection, table, lanes)
        rows = await connection.fetch(
            self._sql["lane_tickets"],
            lanes,
            list(dict.fromkeys(request.needs)),
            [wanted + 1 if lane in roomy else 1 for lane in lanes],
            request.solo,
            ENDING_PRIORITY,
            wanted + 1,
        )
        waiting = [
            Waiting(lane, started, priority, due_at, run_id, "", ending)
            for lane, started, priority, due_at, run_id, ending in rows
        ]
        able = [ticket for ticket in waiting if ticket.lane in roomy or ticket.ending]
        blocked = any(t.due_at <= now for t in waiting) and len(able) < len(waiting)
        chosen = choose(able, slots, now=now, wanted=wanted)
        taken: Sequence[Any] = ()
        next_in = chosen.next_in(now)
        if chosen.tickets:
            runs = [ticket.run_id for ticket in chosen.tickets]
            taken = await connection.fetch(
                self._sql["take_lane_tickets"], request.worker, list(leases), runs, now
            )
            taken = sorted(taken, key=lambda row: row["place"])
            if len(taken) < len(runs):
                next_in = PASSED_OVER_SECONDS if next_in is None else min(next_in, PASSED_OVER_SECONDS)
        return LaneTickets(taken, next_in, blocked or chosen.blocked)

    async def _slots(self, connection: Connection, table: Sequence[Limit], lanes: Iterable[str]) -> Slots:
        leased = dict(await connection.fetch(self._sql["leased_lanes"]))
        resting = {}
        if rest_counts(table, lanes):
            resting = dict(await connection.fetch(self._sql["resting_lanes"]))
        return Slots(table, leased, resting)

    async def put_limit(self, limit: Limit) -> None:
        values = (*limit.scope, limit.most, limit.hold)

        async def work(connection: Connection) -> None:
            await connection.execute(self._sql["put_limit"], *values)

        await self._write("put_limit", self._side_lanes, work, single=True)

    async def drop_limit(self, scope: Scope) -> bool:
        async def work(connection: Connection) -> bool:
            return await connection.fetchval(self._sql["drop_limit"], *scope) is not None

        return await self._write("drop_limit", self._side_lanes, work, single=True)

    async def read_limits(self) -> Sequence[Limit]:
        async def work(connection: Connection) -> list[Limit]:
            return _limits(await connection.fetch(self._sql["read_limits"]))

        return await self._side_lanes.run(work)

    async def read_lanes(self) -> Sequence[LaneUse]:
        async def work(connection: Connection) -> list[LaneUse]:
            leased = dict(await connection.fetch(self._sql["leased_lanes"]))
            resting = dict(await connection.fetch(self._sql["resting_lanes"]))
            return [LaneUse(at, leased.get(at, 0), resting.get(at, 0)) for at in sorted(leased | resting)]

        return await self._side_lanes.run(work)


def _limits(rows: Iterable[Any]) -> list[Limit]:
    return [
        Limit(kind=kind, workspace=workspace, name=name, most=most, hold=hold)
        for kind, workspace, name, most, hold in rows
    ]


def _lock(schema: str, scope: Scope) -> int:
    """Locks are numbers, and of the whole database: another schema has others."""
    name = "\0".join(("stepwell", schema, *scope)).encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big", signed=True)
