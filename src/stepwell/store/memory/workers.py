"""Workers of the memory store: their leases, and the tickets of those that died."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.domain.commit import (
    Beat,
    DrainRequest,
    Owned,
    Reaped,
    WorkerInfo,
    WorkerRow,
)
from stepwell.domain.ids import WorkerId
from stepwell.domain.queues import QueueUse
from stepwell.domain.scope_holds import covering
from stepwell.store.base import SOLO_LOSSES
from stepwell.store.memory.tables import Tables, Ticket
from stepwell.store.memory.verb import transaction

SLACK_SECONDS = 1.0  # a smaller step back is two callers that overtook each other, not a clock that was set


class MemoryWorkers(Tables):
    @transaction("register")
    async def register(self, worker: WorkerInfo) -> None:
        now = self._clock()
        self._touch(now, worker.lease_seconds)
        self._workers[worker.id] = (worker, now + worker.lease_seconds)

    def _touch(self, now: float, lease_seconds: float) -> None:
        """Extend the workers' contact with the store; restart it after a gap or a clock set back."""
        since, last = self._contact
        unbroken = -SLACK_SECONDS <= now - last <= lease_seconds / 2
        self._contact = (since if unbroken else now, now)

    @transaction("heartbeat")
    async def heartbeat(self, worker: WorkerId) -> Beat | None:
        if worker not in self._workers:
            return None
        now = self._clock()
        info, _ = self._workers[worker]
        self._touch(now, info.lease_seconds)
        self._workers[worker] = (info, now + info.lease_seconds)
        owned = [ticket for ticket in self._tickets.values() if ticket.owner == worker]
        tickets = [Owned(t.run_id, t.path, t.wakes, self._is_held(t)) for t in owned]
        return Beat(tickets, worker in self._drains)

    def _is_held(self, ticket: Ticket) -> bool:
        run = self._runs.get(ticket.run_id)
        if run is None or ticket.path or ticket.ending:
            return False
        place = (run.row.workspace, run.row.workflow, ticket.queue)
        return covering(self._scope_holds(), *place) is not None

    @transaction("drain")
    async def drain(self, worker: WorkerId, request: DrainRequest) -> bool | None:
        if worker not in self._workers:
            return None
        if worker in self._drains:
            return False
        self._drains[worker] = replace(request, at=self._clock())
        return True

    @transaction("deregister")
    async def deregister(self, worker: WorkerId) -> None:
        self._workers.pop(worker, None)
        self._drains.pop(worker, None)
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
            self._drains.pop(worker, None)
        lost = [t for t in self._tickets.values() if t.owner is not None and t.owner not in self._workers]
        for ticket in lost:
            ticket.losses += ticket.owner not in leaving
            ticket.free(now)
        solo_due = any(
            t.lease is None and t.held is None and t.losses >= SOLO_LOSSES and t.due_at <= now
            for t in self._tickets.values()
        )
        return Reaped(len(dead), len(lost), solo_due)

    def _is_dead(self, worker: WorkerId, now: float) -> bool:
        """Its lease expired while workers were in contact for one lease, up to now.

        Without "up to now" the first to reap after an outage would take all workers for dead. A lease that
        ends later than a renewal could make it is from before the clock was set back.
        """
        info, until = self._workers[worker]
        since, last = self._contact
        unbroken = -SLACK_SECONDS <= now - last <= info.lease_seconds / 2
        in_contact = unbroken and now - since >= info.lease_seconds
        return in_contact and not now <= until <= now + info.lease_seconds + SLACK_SECONDS

    async def read_queues(self, workspace: str, *, now: float) -> Sequence[QueueUse]:
        tickets = [
            ticket
            for ticket in self._tickets.values()
            if ticket.queue and workspace in ("", self._runs[ticket.run_id].row.workspace)
        ]
        uses: list[QueueUse] = []
        for queue in sorted({ticket.queue for ticket in tickets}):
            here = [ticket for ticket in tickets if ticket.queue == queue]
            due = [ticket.due_at for ticket in here if ticket.lease is None and ticket.due_at <= now]
            active = sum(ticket.lease is not None for ticket in here)
            uses.append(
                QueueUse(queue, len(due), len(here) - len(due) - active, active, min(due, default=None))
            )
        return uses

    async def list_workers(self) -> Sequence[WorkerRow]:
        return [
            WorkerRow(
                id=w.id,
                name=w.name,
                queues=tuple(w.queues),
                needs=tuple(w.needs),
                lease_until=until,
                leaving=w.leaving,
                draining=self._drains.get(w.id),
            )
            for w, until in self._workers.values()
        ]
