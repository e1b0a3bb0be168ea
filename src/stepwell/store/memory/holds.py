"""Holds of the memory store: runs that no worker may take."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.domain.commit import HoldOutcome
from stepwell.domain.events import written
from stepwell.domain.holds import HOLD, HoldRequest, hold_refusal
from stepwell.domain.ids import RunId
from stepwell.domain.scope_holds import ScopeHold
from stepwell.store.base import Encode
from stepwell.store.memory.tables import Tables
from stepwell.store.memory.verb import transaction


class MemoryHolds(Tables):
    @transaction("hold")
    async def hold(
        self, run_id: RunId, *, held: bool = True, by: str = "", reason: str = "", encode: Encode = bytes
    ) -> HoldOutcome:
        ticket = self._tickets.get((run_id, ""))
        if ticket is None:
            return HoldOutcome.ENDED if run_id in self._runs else HoldOutcome.UNKNOWN
        asked = HoldRequest(held=held, by=by, reason=reason)
        refusal = hold_refusal(asked, ending=ticket.ending, held=ticket.held is not None)
        if refusal is not None:
            return refusal
        waiting = any(row.kind == HOLD for row in self._inbox.get(run_id, {}).values())
        if ticket.lease is not None or waiting:
            self._deliver(asked.message(run_id, ticket.wakes, encode))
        else:
            event = written(asked.fact)
            self._append(ticket, [replace(event, payload=encode(event.payload))])
        mark = asked.mark(self._clock(), encode)
        for own in self._tickets.values():
            if own.run_id == run_id:
                own.held = mark
        return HoldOutcome.CHANGED

    @transaction("hold_scope")
    async def hold_scope(self, hold: ScopeHold) -> bool:
        scope = (hold.kind, hold.workspace, hold.name)
        before = self._holds.get(scope)
        if hold.held == (before is not None and before.held):
            return False
        self._holds[scope] = hold._replace(at=self._clock())
        return True

    async def list_holds(self, workspace: str) -> Sequence[ScopeHold]:
        return [self._holds[scope] for scope in sorted(self._holds) if scope[1] == workspace]
