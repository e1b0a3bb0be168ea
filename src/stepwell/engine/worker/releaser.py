"""TicketReleaser: releases runs that this worker owns and cannot drive, for another claim."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from stepwell.domain import events as ev
from stepwell.domain.commit import Claim, Commit, Outcome, Park
from stepwell.domain.ids import needs_this_graph
from stepwell.domain.status import Status
from stepwell.engine.execution.step_runner import StepRunner
from stepwell.engine.run.log_writer import opening
from stepwell.engine.worker.roster import Roster
from stepwell.errors import StoreError
from stepwell.store.base import Store

_log = logging.getLogger("stepwell.engine")

_AGAIN_SECONDS = 5.0  # until a run with which this process failed may be claimed again
_TRIES = 10
_PAUSE = 0.2  # seconds, when the store does not answer


class TicketReleaser:
    def __init__(
        self, store: Store, runner: StepRunner, roster: Roster, *, note_due: Callable[[float], None]
    ) -> None:
        self._store = store
        self._runner = runner
        self._roster = roster
        self._note_due = note_due

    def release(self, claim: Claim) -> None:
        """Release a run because this worker failed, not the run: it can be claimed again a little later."""
        self._runner.spawn(self._release(claim, began=True))

    def release_unused(self, claim: Claim) -> None:
        """Release a run under whose lease nothing was done."""
        self._runner.spawn(self._release(claim, began=False))

    def reroute(self, claim: Claim) -> None:
        """Release a run whose graph cannot be run here, and let it need exactly that graph."""
        self._runner.spawn(self._reroute(claim))

    async def _reroute(self, claim: Claim) -> None:
        await self._release(claim, began=False)
        accepted = ev.read_as(ev.Accepted, claim.log[0])
        needs = needs_this_graph(accepted.workflow, accepted.version)
        try:
            await self._store.reroute(claim.run_id, needs=claim.needs, to=needs)
        except StoreError as error:  # the next owner will notice the same
            _log.warning("run %s was released, but not rerouted: %s", claim.run_id, error.message)

    async def _release(self, claim: Claim, *, began: bool) -> None:
        for _ in range(_TRIES):
            try:
                tickets = [t for t in await self._store.read_tickets(claim.run_id) if t.path == claim.path]
                if not tickets or tickets[0].lease != claim.lease:
                    return
                head = tickets[0].head
                park = Park(seen=tickets[0].wakes, status=Status.RUNNING, due_in=_AGAIN_SECONDS)
                commit = Commit(run_id=claim.run_id, lease=claim.lease, head=head, then=park)
                if began and head == claim.head:  # record the lease under which steps may have run
                    commit.events = [ev.written(fact) for fact in opening(claim, self._roster.worker)]
                results = await self._store.commit([commit])
                if results[0].outcome is Outcome.OK:
                    self._note_due(_AGAIN_SECONDS)
                    return
            except StoreError as error:
                _log.warning("run %s could not be released yet: %s", claim.run_id, error.message)
                await asyncio.sleep(_PAUSE)
