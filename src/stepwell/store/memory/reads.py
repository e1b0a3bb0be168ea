"""Reads of the memory store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from msgspec.structs import replace

from stepwell.domain.commit import NEVER, LogRow, RunRow, TicketRow
from stepwell.domain.ids import RunId
from stepwell.domain.status import Status
from stepwell.store.memory.claims import claim_order
from stepwell.store.memory.limits import MemoryLimits
from stepwell.store.memory.tables import Ticket


class MemoryReads(MemoryLimits):
    async def now(self) -> float:
        return self._clock()

    async def read_log(
        self,
        run_id: RunId,
        *,
        after: int = 0,
        limit: int = 1000,
        bytes_max: int | None = None,
        kinds: Sequence[str] = (),
        path: str = "",
    ) -> Sequence[LogRow]:
        run = self._runs.get(run_id)
        if run and (kinds or path):
            matching = (row for row in run.log[after:] if not kinds or row.kind in kinds)
            return [row for row in matching if path in ("", row.path)][:limit]
        rows = run.log[after : after + limit] if run else []
        if bytes_max is None:
            return rows
        sizes = [0, *accumulate(len(row.payload) for row in rows)]
        return [row for row, before in zip(rows, sizes, strict=False) if before < bytes_max]

    async def read_log_end(self, run_id: RunId, *, count: int = 1) -> Sequence[LogRow]:
        run = self._runs.get(run_id)
        return run.log[-count:] if run and count > 0 else []

    async def read_run(self, run_id: RunId) -> RunRow | None:
        run = self._runs.get(run_id)
        if run is None:
            return None
        ticket = self._tickets.get((run_id, ""))
        row = run.row
        if ticket is not None and ticket.lease is not None:
            row = replace(row, status=Status.RUNNING, owner=ticket.owner or "")
        if ticket is not None and ticket.held is not None:
            row = replace(row, held=True)
        return row

    async def find_run(self, workspace: str, key: str) -> RunId | None:
        return self._known.get((workspace, key))

    async def read_tickets(self, run_id: RunId) -> Sequence[TicketRow]:
        keys = sorted(key for key in self._tickets if key[0] == run_id)
        return [_ticket_row(self._tickets[key]) for key in keys]

    async def list_others(self, queues: Sequence[str], needs: Sequence[str]) -> Sequence[TicketRow]:
        first: dict[tuple[str, str], Ticket] = {}
        for ticket in sorted(self._tickets.values(), key=claim_order):
            free = ticket.lease is None and ticket.held is None
            if free and ticket.queue in queues and ticket.needs not in needs:
                first.setdefault((ticket.queue, ticket.needs), ticket)
        return [_ticket_row(first[kind]) for kind in sorted(first)]

    def next_due(self, needs: Sequence[str]) -> float:
        """When the next ticket with one of these needs is due; for tests, which move the clock."""
        free = [t for t in self._tickets.values() if t.lease is None and t.held is None]
        open_tickets = [t for t in free if t.needs in needs]
        if any(
            ticket.lane for ticket in open_tickets
        ):  # at a full limit tickets wait for others, not for time
            slots = self._slots()
            open_tickets = [
                t for t in open_tickets if t.ending or slots.blocking(t.lane, started=t.started) is None
            ]
        return min((ticket.due_at for ticket in open_tickets), default=NEVER)


def _ticket_row(ticket: Ticket) -> TicketRow:
    return TicketRow(
        run_id=ticket.run_id,
        path=ticket.path,
        queue=ticket.queue,
        needs=ticket.needs,
        priority=ticket.priority,
        started=ticket.started,
        ending=ticket.ending,
        due_at=ticket.due_at,
        owner=ticket.owner or "",
        lease=ticket.lease or "",
        head=ticket.head,
        wakes=ticket.wakes,
        losses=ticket.losses,
        lane=ticket.lane,
        held=ticket.held,
    )
