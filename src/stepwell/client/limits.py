"""Full limit: which limit keeps a run back, and who holds its slots."""

from __future__ import annotations

from stepwell.domain.commit import RunFilter, RunRow, TicketRow
from stepwell.domain.limits import Slots
from stepwell.domain.status import Status
from stepwell.domain.why import FullLimit
from stepwell.store.base import Store

_NAMED = 3


async def full_limit(store: Store, run: RunRow, ticket: TicketRow) -> FullLimit | None:
    if not ticket.lane or ticket.lease:
        return None
    use = await store.read_lanes()
    slots = Slots(
        await store.read_limits(),
        {lane: leased for lane, leased, _ in use},
        {lane: resting for lane, _, resting in use},
    )
    limit = slots.blocking(ticket.lane, started=ticket.started)
    if limit is None:
        return None
    workflow = limit.name if limit.kind == "workflow" else ""
    wanted = RunFilter(workspace=run.workspace, workflow=workflow, statuses=(Status.RUNNING,), limit=_NAMED)
    holders = [holder.id for holder in await store.list_runs(wanted)]
    return FullLimit(str(limit.scope), limit.most or 0, slots.used(limit), holders)
