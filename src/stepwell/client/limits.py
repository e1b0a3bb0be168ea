"""Full limit: which limit keeps a run back, and who holds its slots."""

from __future__ import annotations

from stepwell.domain.admission import FreeSlots
from stepwell.domain.commit import RunFilter, RunRow, TicketRow
from stepwell.domain.lanes import read_lane
from stepwell.domain.limits import Limit
from stepwell.domain.status import Status
from stepwell.domain.why import FullLimit
from stepwell.store.base import Store

_NAMED = 3
_LOOKED_AT = 50


async def full_limit(store: Store, run: RunRow, ticket: TicketRow) -> FullLimit | None:
    if not ticket.lane or ticket.lease:
        return None
    use = await store.read_lanes()
    slots = FreeSlots(
        await store.read_limits(),
        {lane: leased for lane, leased, _ in use},
        {lane: resting for lane, _, resting in use},
    )
    limit = slots.blocking(ticket.lane, started=ticket.started)
    if limit is None:
        return None
    return FullLimit(str(limit.scope), limit.most or 0, slots.used(limit), await _holders(store, run, limit))


async def _holders(store: Store, run: RunRow, limit: Limit) -> list[str]:
    """Some of them: for a person who looks, not for counting."""
    statuses = (Status.RUNNING, Status.SUSPENDED) if limit.hold == "run" else (Status.RUNNING,)
    workflow = limit.name if limit.kind == "workflow" else ""
    wanted = RunFilter(workspace=run.workspace, workflow=workflow, statuses=statuses, limit=_LOOKED_AT)
    found: list[str] = []
    for other in await store.list_runs(wanted):
        # One that is between two attempts, or waits for another worker's step, is running without a slot.
        tickets = [
            t for t in await store.read_tickets(other.id) if t.lane and (t.lease or limit.hold == "run")
        ]
        if any(read_lane(t.lane).is_in(limit.scope) for t in tickets):
            found.append(other.id)
        if len(found) == _NAMED:
            break
    return found
