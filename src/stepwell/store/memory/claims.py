"""Tickets of the memory store: who works on what."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from stepwell.domain.admission import WaitingTicket, select_tickets
from stepwell.domain.commit import (
    NEVER,
    Claim,
    ClaimRequest,
    Claims,
    LogRow,
    Message,
    Outcome,
    Owned,
    Reaped,
    WorkerInfo,
)
from stepwell.domain.ids import LeaseId, RunId, WorkerId
from stepwell.domain.lanes import Lane, LaneUse, coverage_of
from stepwell.domain.limits import Limit, LimitScope
from stepwell.domain.shares import in_turn
from stepwell.store.base import INBOX_READ_MAX, SOLO_LOSSES
from stepwell.store.memory.tables import Tables, Ticket
from stepwell.store.memory.transaction import transaction

SLACK_SECONDS = 1.0  # less is not a clock that was set back, only two callers that overtook each other


def claim_order(ticket: Ticket) -> tuple[bool, int, float, str, str]:
    return (not ticket.started, -ticket.priority, ticket.due_at, ticket.run_id, ticket.path)


class MemoryTickets(Tables):
    @transaction("register")
    async def register(self, worker: WorkerInfo) -> None:
        now = self._clock()
        self._touch(now, worker.lease_seconds)
        self._workers[worker.id] = (worker, now + worker.lease_seconds)

    def _touch(self, now: float, lease_seconds: float) -> None:
        """Contact of the fleet goes on, or begins anew after a gap or when the clock was set back."""
        since, last = self._contact
        unbroken = -SLACK_SECONDS <= now - last <= lease_seconds / 2
        self._contact = (since if unbroken else now, now)

    @transaction("claim")
    async def claim(self, request: ClaimRequest) -> Claims:
        now = self._clock()
        if request.worker not in self._workers:
            return Claims((), now, None)
        before = [
            t for t in self._tickets.values() if t.owner == request.worker and t.lease in request.leases
        ]
        if before:  # asked again, because the answer was lost
            before.sort(key=lambda t: request.leases.index(LeaseId(t.lease or "")))
            return Claims([self._take(t, request, LeaseId(t.lease or "")) for t in before], now, 0.0)
        open_tickets = [
            ticket
            for ticket in self._tickets.values()
            if ticket.lease is None
            and ticket.queue in request.queues
            and ticket.needs in request.needs
            and (ticket.losses >= SOLO_LOSSES) == request.solo
        ]
        self._give_lanes(open_tickets)
        if any(ticket.lane for ticket in open_tickets):
            return self._claim_within_limits(open_tickets, request, now)
        due = [ticket for ticket in open_tickets if ticket.due_at <= now]
        due.sort(key=claim_order)
        begun, fresh = [t for t in due if t.started], [t for t in due if not t.started]
        taken = in_turn(begun, fresh, request.fresh)[: request.limit]
        claims = [self._take(t, request, lease) for t, lease in zip(taken, request.leases, strict=False)]
        rest = [t.due_at for t in open_tickets if t.lease is None and t.due_at != NEVER]
        return Claims(claims, now, max(0.0, min(rest) - now) if rest else None)

    def _give_lanes(self, open_tickets: Sequence[Ticket]) -> None:
        """To runs that bring no limit and are within reach of one that was set, owned or about to be."""
        coverage = coverage_of(self._limits.values())
        if not coverage:
            return
        owned = [ticket for ticket in self._tickets.values() if ticket.lease is not None]
        for ticket in [*owned, *open_tickets]:
            run = self._runs.get(ticket.run_id)
            if run is None or ticket.path or ticket.lane or not coverage.covers(ticket.queue, ticket.needs):
                continue
            row = run.row
            ticket.lane = Lane(row.workspace, row.workflow, ticket.queue, child=bool(row.parent)).text

    def _claim_within_limits(self, tickets: Sequence[Ticket], request: ClaimRequest, now: float) -> Claims:
        waiting = [
            WaitingTicket(t.lane, t.started, t.priority, t.due_at, t.run_id, t.path, t.ending)
            for t in tickets
        ]
        wanted = min(request.limit, len(request.leases))
        chosen = select_tickets(waiting, self._slots(), now=now, wanted=wanted, fresh=request.fresh)
        claims = [
            self._take(self._tickets[RunId(ticket.run_id), ticket.path], request, lease)
            for ticket, lease in zip(chosen.tickets, request.leases, strict=False)
        ]
        return Claims(claims, now, chosen.next_in(now), chosen.blocked)

    @transaction("put_limit")
    async def put_limit(self, limit: Limit) -> None:
        self._limits[limit.scope] = limit

    @transaction("drop_limit")
    async def drop_limit(self, scope: LimitScope) -> bool:
        return self._limits.pop(scope, None) is not None

    async def read_limits(self) -> Sequence[Limit]:
        return [self._limits[scope] for scope in sorted(self._limits)]

    async def read_lanes(self) -> Sequence[LaneUse]:
        use: dict[str, Counter[str]] = defaultdict(Counter)
        for ticket in self._tickets.values():
            if ticket.lane and (ticket.lease is not None or ticket.started):
                use[ticket.lane]["leased" if ticket.lease is not None else "resting"] += 1
        return [LaneUse(lane, counts["leased"], counts["resting"]) for lane, counts in sorted(use.items())]

    def _take(self, ticket: Ticket, request: ClaimRequest, lease: LeaseId) -> Claim:
        ticket.owner, ticket.lease, ticket.started = request.worker, lease, True
        run = self._runs.get(ticket.run_id)
        log: list[LogRow] = []
        if run is not None and ticket.path:
            log = [run.log[ticket.head - 1]]
        elif run is not None:
            log = [row for row in run.log if row.seq == 1 or row.seq >= ticket.base]
            assert log[-1].seq == ticket.head, f"{ticket.run_id}: the log ends at {log[-1].seq}"
        inbox = sorted(self._inbox.get(ticket.run_id, {}).values(), key=lambda row: row.n)
        return Claim(
            ticket.run_id,
            ticket.path,
            ticket.needs,
            lease,
            ticket.head,
            ticket.wakes,
            ticket.losses,
            ticket.lost_lease,
            log,
            [] if ticket.path else inbox[:INBOX_READ_MAX],
            limited=bool(ticket.lane),
        )

    @transaction("reroute")
    async def reroute(self, run_id: RunId, *, needs: str, to: str) -> bool:
        ticket = self._tickets.get((run_id, ""))
        if ticket is None or ticket.lease is not None or ticket.needs != needs:
            return False
        ticket.needs = to
        return True

    @transaction("finish_remote")
    async def finish_remote(self, claim: Claim, result: Message) -> Outcome:
        ticket = self._tickets.get((claim.run_id, claim.path))
        if ticket is None or ticket.lease != claim.lease:
            return Outcome.LOST
        del self._tickets[claim.run_id, claim.path]
        self._deliver(result)
        return Outcome.OK

    @transaction("heartbeat")
    async def heartbeat(self, worker: WorkerId) -> Sequence[Owned] | None:
        if worker not in self._workers:
            return None
        now = self._clock()
        info, _ = self._workers[worker]
        self._touch(now, info.lease_seconds)
        self._workers[worker] = (info, now + info.lease_seconds)
        return [Owned(t.run_id, t.path, t.wakes) for t in self._tickets.values() if t.owner == worker]

    @transaction("deregister")
    async def deregister(self, worker: WorkerId) -> None:
        self._workers.pop(worker, None)
        now = self._clock()
        for ticket in self._tickets.values():
            if ticket.owner == worker:
                ticket.free(now)

    @transaction("reap")
    async def reap(self) -> Reaped:
        now = self._clock()
        dead = [worker for worker in self._workers if self._is_dead(worker, now)]
        leaving = [worker for worker in dead if self._workers[worker][0].leaving]
        for worker in dead:
            del self._workers[worker]
        lost = [t for t in self._tickets.values() if t.owner is not None and t.owner not in self._workers]
        for ticket in lost:
            ticket.losses += ticket.owner not in leaving
            ticket.free(now)
        solo_due = any(
            t.lease is None and t.losses >= SOLO_LOSSES and t.due_at <= now for t in self._tickets.values()
        )
        return Reaped(len(dead), len(lost), solo_due)

    def _is_dead(self, worker: WorkerId, now: float) -> bool:
        """Its lease ran out while the fleet was in contact for one lease, up to now.

        Without "up to now" the first to reap after an outage would kill everybody. A lease that
        ends later than a renewal could make it is from before the clock was set back.
        """
        info, until = self._workers[worker]
        since, last = self._contact
        unbroken = -SLACK_SECONDS <= now - last <= info.lease_seconds / 2
        in_contact = unbroken and now - since >= info.lease_seconds
        return in_contact and not now <= until <= now + info.lease_seconds + SLACK_SECONDS
