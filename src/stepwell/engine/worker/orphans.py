"""Orphaned tickets: the store says we own them, but no activation here is running them.

The answer that gave them to us was lost: a claim executed after we had given up on it, or a commit whose
outcome we misread. No other worker may take them while we live, so when a heartbeat shows one, we take it up
ourselves.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable

from stepwell.domain.commit import Claim, ClaimRequest
from stepwell.domain.ids import NEEDS_EMIT, LeaseId, RunId
from stepwell.engine.worker.roster import Roster
from stepwell.errors import StoreError
from stepwell.store.base import SOLO_LOSSES, Store
from stepwell.system import Clock

_log = logging.getLogger("stepwell.engine")
_LEASES_KEPT = 1000


class OrphanedTickets:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        roster: Roster,
        *,
        overdue_seconds: float,
        begin: Callable[[Claim, float], None],
        release: Callable[[Claim], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._roster = roster
        self._overdue_seconds = overdue_seconds  # before that an answer may still be on its way
        self._begin = begin
        self._release = release
        self._since: dict[tuple[RunId, str], float] = {}
        self._released: deque[LeaseId] = deque(maxlen=_LEASES_KEPT)

    def note_released(self, lease: LeaseId) -> None:
        """A run was released under this lease: if a late claim brings it again, that claim is outdated."""
        self._released.append(lease)

    def overdue(self, owned: Iterable[tuple[RunId, str]]) -> list[tuple[RunId, str]]:
        """The tickets that the store has shown as ours for a while, and that nobody here drives."""
        now = self._clock.monotonic()
        self._since = {key: self._since.get(key, now) for key in owned if not self._roster.drives(*key)}
        overdue = [key for key, since in self._since.items() if now - since > self._overdue_seconds]
        for key in overdue:
            self._since[key] = now
        return overdue

    async def adopt(self, run_id: RunId, path: str) -> None:
        """Claim it again with the lease that it has: that returns the ticket with its log and inbox."""
        worker = self._roster.worker
        try:
            for ticket in await self._store.read_tickets(run_id):
                if (ticket.path, ticket.owner) != (path, worker) or self._roster.drives(run_id, path):
                    continue
                request = ClaimRequest(
                    worker=worker,
                    queues=[ticket.queue],
                    needs=[ticket.needs],
                    limit=1,
                    leases=[LeaseId(ticket.lease)],
                    solo=ticket.losses >= SOLO_LOSSES,
                )
                answer = await self._store.claim(request)
                for claim in answer.claims:
                    self.begin_late(claim, answer.now)
        except StoreError as error:
            _log.warning("run %s is ours and not driven; checking again soon: %s", run_id, error.message)

    def begin_late(self, claim: Claim, now: float) -> None:
        """Begin a claim whose lease was requested earlier. If the run was released under that lease since,
        it must not continue under it: its next owner gets a lease that was never used."""
        if self._was_released(claim):
            self._release(claim)
        else:
            self._begin(claim, now)

    def _was_released(self, claim: Claim) -> bool:
        if claim.path or claim.needs == NEEDS_EMIT:
            return False
        lease = claim.lease.encode()
        written = any(row.kind == "claimed" and lease in row.payload for row in claim.log)
        return written or claim.lease in self._released
