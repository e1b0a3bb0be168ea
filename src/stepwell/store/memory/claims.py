"""Claims of the memory store, and the results of remote steps."""

from __future__ import annotations

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
)
from stepwell.domain.ids import LeaseId, RunId
from stepwell.domain.shares import in_turn
from stepwell.store.base import INBOX_READ_MAX, SOLO_LOSSES
from stepwell.store.memory.limits import MemoryLimits
from stepwell.store.memory.tables import Ticket
from stepwell.store.memory.verb import transaction


def claim_order(ticket: Ticket) -> tuple[bool, int, float, str, str]:
    return (not ticket.started, -ticket.priority, ticket.due_at, ticket.run_id, ticket.path)


class MemoryClaims(MemoryLimits):
    @transaction("claim")
    async def claim(self, request: ClaimRequest) -> Claims:
        now = self._clock()
        if request.worker not in self._workers:
            return Claims((), now, None)
        repeated = [
            t for t in self._tickets.values() if t.owner == request.worker and t.lease in request.leases
        ]
        if repeated:  # the first answer was lost
            repeated.sort(key=lambda t: request.leases.index(LeaseId(t.lease or "")))
            return Claims([self._take(t, request, LeaseId(t.lease or "")) for t in repeated], now, 0.0)
        open_tickets = [
            ticket
            for ticket in self._tickets.values()
            if ticket.lease is None
            and ticket.held is None
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
