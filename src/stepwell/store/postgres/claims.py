"""Claims: tickets for a worker, with the log and the messages it needs to continue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from stepwell.domain.commit import NEVER, Claim, ClaimRequest, Claims, InboxRow, LogRow
from stepwell.domain.ids import LeaseId, RunId
from stepwell.errors import OutcomeUnknown, StoreUnavailable
from stepwell.store.base import INBOX_READ_MAX
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.limits import PASSED_OVER_SECONDS, PgLimits
from stepwell.store.postgres.pool.connection import Connection

SPARE_CANDIDATES = 50  # of each group, beyond the limit: another claimer may hold the first ones
EVENTS_AT_ONCE = 20_000  # in one answer
LAST_SEQ = 2**31 - 1


class _Taken(NamedTuple):
    run_id: RunId
    path: str
    needs: str
    lease: LeaseId
    head: int
    base: int
    wakes: int
    losses: int
    lost_lease: str
    limited: bool
    accepted_at: float | None
    accepted: bytes | None

    @property
    def is_fresh(self) -> bool:
        """True if its whole log came with the ticket, and there are no messages."""
        return self.accepted is not None and self.wakes == 0


class PgClaims:
    def __init__(self, db: Database, limits: PgLimits) -> None:
        self._db = db
        self._sql = db.sql
        self._limits = limits

    async def claim(self, request: ClaimRequest) -> Claims:
        limit = min(request.limit, len(request.leases))

        async def take(connection: Connection) -> list[Any]:
            rows: list[Any] = await connection.fetch(
                self._sql["claim_due"],
                self._db.now(),
                request.worker,
                list(dict.fromkeys(request.queues)),
                list(dict.fromkeys(request.needs)),
                list(request.leases),
                limit,
                limit + SPARE_CANDIDATES,
                request.solo,
                request.fresh,
            )
            return rows

        # Repeated after a lost connection, it returns what the same leases took the first time.
        rows = await self._db.write("claim", self._db.claim_slots, take, single=True)
        now: float = rows[0]["now"]
        if rows[0]["gate_closed"] and not rows[0]["asked_again"] and limit:
            within = await self._limits.claim_within_limits(request, request.leases[:limit])
            return Claims(await self._with_logs(_taken(within.rows)), now, within.next_in, within.blocked)
        taken = _taken(rows)
        return Claims(await self._with_logs(taken), now, _next_in(rows[0], len(taken), limit))

    async def reroute(self, run_id: RunId, *, needs: str, to: str) -> bool:
        async def work(connection: Connection) -> bool:
            return await connection.fetchval(self._sql["reroute"], run_id, needs, to) is not None

        return await self._db.write("reroute", self._db.side_slots, work, single=True)

    async def _with_logs(self, taken: Sequence[_Taken]) -> list[Claim]:
        """Read logs and inboxes, in later statements than the one that took the leases."""
        fresh = {ticket.lease: _fresh_claim(ticket) for ticket in taken if ticket.is_fresh}
        claims: list[Claim] = []
        for chunk in _chunks([ticket for ticket in taken if not ticket.is_fresh]):
            try:
                claims += await self._db.claim_slots.run(lambda c, part=chunk: self._read_claims(c, part))  # type: ignore[misc]  # mypy infers no type for a default argument
            except StoreUnavailable as error:
                # Nothing was sent this time, but the leases are taken and must not be forgotten.
                raise OutcomeUnknown(
                    f"tickets were claimed, but their logs were not read: {error.message}"
                ) from error
        if not fresh:
            return claims
        by_lease = fresh | {claim.lease: claim for claim in claims}
        return [by_lease[ticket.lease] for ticket in taken if ticket.lease in by_lease]

    async def _read_claims(self, connection: Connection, taken: Sequence[_Taken]) -> list[Claim]:
        logs: dict[int, list[LogRow]] = defaultdict(list)
        boxes: dict[int, list[InboxRow]] = defaultdict(list)
        ranges = [(i, *span) for i, ticket in enumerate(taken) for span in _spans(ticket)]
        if ranges:
            runs = [taken[i].run_id for i, _, _ in ranges]
            firsts, lasts = [first for _, first, _ in ranges], [last for _, _, last in ranges]
            for row in await connection.fetch(self._sql["read_claimed_logs"], runs, firsts, lasts):
                logs[ranges[row[0] - 1][0]].append(LogRow(*row[1:]))
        woken = [i for i, ticket in enumerate(taken) if ticket.wakes and not ticket.path]
        if woken:
            runs = [taken[i].run_id for i in woken]
            for row in await connection.fetch(self._sql["read_claimed_inboxes"], runs, INBOX_READ_MAX):
                boxes[woken[row[0] - 1]].append(InboxRow(*row[1:]))
        return [_claim(t, logs[i], boxes[i]) for i, t in enumerate(taken) if not _overtaken(t, logs[i])]


def _taken(rows: Sequence[Any]) -> list[_Taken]:
    return [_Taken(*(row[field] for field in _Taken._fields)) for row in rows if row["place"] is not None]


def _next_in(row: Any, taken: int, limit: int) -> float | None:
    if row["asked_again"]:
        return 0.0
    if row["candidates"] > taken:
        return 0.0 if taken == limit else PASSED_OVER_SECONDS
    later_at = row["later_at"]
    return None if later_at is None or later_at == NEVER else max(0.0, later_at - row["now"])


def _spans(ticket: _Taken) -> list[tuple[int, int]]:
    """The events to read: a remote step's own, or a run's first and everything from its base on."""
    if ticket.path:
        return [(ticket.head, ticket.head)]
    if ticket.head == 0:  # a broadcast event has no log
        return []
    return [(1, LAST_SEQ)] if ticket.base <= 2 else [(1, 1), (ticket.base, LAST_SEQ)]


def _chunks(taken: Sequence[_Taken]) -> Iterator[list[_Taken]]:
    chunk: list[_Taken] = []
    events = 0
    for ticket in taken:
        if chunk and events + ticket.head > EVENTS_AT_ONCE:
            yield chunk
            chunk, events = [], 0
        chunk.append(ticket)
        events += ticket.head - ticket.base + 1
    if chunk:
        yield chunk


def _overtaken(ticket: _Taken, log: Sequence[LogRow]) -> bool:
    """True if somebody else has written to the run: we were frozen and taken for dead meanwhile."""
    return not ticket.path and ticket.head > 0 and (not log or log[-1].seq > ticket.head)


def _fresh_claim(ticket: _Taken) -> Claim:
    assert ticket.accepted is not None
    assert ticket.accepted_at is not None
    return _claim(ticket, [LogRow(1, "accepted", "", 0, ticket.accepted_at, ticket.accepted)], [])


def _claim(ticket: _Taken, log: list[LogRow], inbox: list[InboxRow]) -> Claim:
    if ticket.head and not ticket.path:
        ends = log[-1].seq
        assert ends == ticket.head, f"{ticket.run_id}: the log ends at {ends}, not {ticket.head}"
    return Claim(
        ticket.run_id,
        ticket.path,
        ticket.needs,
        ticket.lease,
        ticket.head,
        ticket.wakes,
        ticket.losses,
        ticket.lost_lease,
        log,
        inbox,
        ticket.limited,
    )
