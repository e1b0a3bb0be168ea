"""Strays: tickets that are ours although nobody here drives them.

The answer that gave them to us was lost: a claim that was executed after we had given up on it, a
commit whose outcome we misread. No other worker may take them while we live, so a heartbeat that
shows one leads us to take it up ourselves.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable

from stepwell.domain.commit import Claim, ClaimRequest
from stepwell.domain.ids import NEEDS_EMIT, LeaseId, RunId, WorkerId
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
        *,
        patience: float,
        worker: Callable[[], WorkerId],
        driven: Callable[[RunId, str], bool],
        begin: Callable[[Claim, float], None],
        give_back: Callable[[Claim], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._patience = patience  # seconds: an answer may still be on its way
        self._worker = worker
        self._driven = driven
        self._begin = begin
        self._give_back = give_back
        self._since: dict[tuple[RunId, str], float] = {}
        self._left: deque[LeaseId] = deque(maxlen=_LEASES_KEPT)

    def left(self, lease: LeaseId) -> None:
        """A run was given back under this lease: if a late claim brings it again, it is an old one."""
        self._left.append(lease)

    def overdue(self, owned: Iterable[tuple[RunId, str]]) -> list[tuple[RunId, str]]:
        """Those that the store has shown as ours for a while, and that nobody drives."""
        now = self._clock.monotonic()
        self._since = {key: self._since.get(key, now) for key in owned if not self._driven(*key)}
        overdue = [key for key, since in self._since.items() if now - since > self._patience]
        for key in overdue:
            self._since[key] = now
        return overdue

    async def adopt(self, run_id: RunId, path: str) -> None:
        """Ask again with the lease that it has: that returns the ticket with its log and inbox."""
        worker = self._worker()
        try:
            for ticket in await self._store.read_tickets(run_id):
                if (ticket.path, ticket.owner) != (path, worker) or self._driven(run_id, path):
                    continue
                request = ClaimRequest(
                    worker=worker,
                    queues=[ticket.queue],
                    needs=[ticket.needs],
                    limit=1,
                    leases=[LeaseId(ticket.lease)],
                    solo=ticket.losses >= SOLO_LOSSES,
                )
                found = await self._store.claim(request)
                for claim in found.claims:
                    self.take(claim, found.now)
        except StoreError as error:
            _log.warning("run %s is ours and not driven; looking again soon: %s", run_id, error.message)

    def take(self, claim: Claim, now: float) -> None:
        """What a lease brought that was asked for before. If the run was left under it meanwhile, it must
        not go on under it: its next owner gets a lease that was never used."""
        if self._was_left(claim):
            self._give_back(claim)
        else:
            self._begin(claim, now)

    def _was_left(self, claim: Claim) -> bool:
        if claim.path or claim.needs == NEEDS_EMIT:
            return False
        lease = claim.lease.encode()
        written = any(row.kind == "claimed" and lease in row.payload for row in claim.log)
        return written or claim.lease in self._left
