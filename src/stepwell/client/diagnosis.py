"""Why a run does not move: the log, the ticket, the workers, and the limit that keeps it waiting."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stepwell.client.run_trace import log_state
from stepwell.domain.admission import FreeSlots
from stepwell.domain.commit import RunFilter, RunRow, TicketRow
from stepwell.domain.lanes import read_lane
from stepwell.domain.limits import Limit
from stepwell.domain.scope_holds import ScopeHold, covering
from stepwell.domain.state import RunState
from stepwell.domain.status import Status
from stepwell.domain.why import FullLimit, Reason, explain, held_by_scope, needs_state
from stepwell.errors import LogDamaged, StepwellError
from stepwell.store.base import Store

if TYPE_CHECKING:
    from stepwell.client.handle import RunHandle

_log = logging.getLogger("stepwell.client")

_HOLDERS_NAMED = 3
_HOLDERS_READ = 50


async def why(handle: RunHandle[Any]) -> Reason:
    store = handle._client.store
    run = await handle.info()
    tickets = [t for t in await store.read_tickets(run.id) if t.path == ""]
    ticket = tickets[0] if tickets else None
    full = await _full_limit(store, run, ticket) if ticket is not None else None
    now = await store.now()
    hold = await _scope_hold(store, run, ticket) if ticket is not None else None
    if hold is not None:
        return held_by_scope(hold)
    try:
        state = await log_state(handle) if needs_state(run, ticket, now) else RunState()
    except LogDamaged as damage:
        return Reason("damaged", f"the run is {run.status}: {damage.message}")
    return explain(run, ticket, state, await store.list_workers(), now, full=full)


async def warn_if_unserved(handle: RunHandle[Any]) -> None:
    """Log a warning if no worker has the workflow: the caller would wait in silence.

    The usual cause is an engine that was not given the workflow.
    """
    with suppress(StepwellError):  # only a warning; the caller meets the error on its next read
        reason = await handle.why()
        if reason.code == "no_worker":
            _log.warning(
                "run %s has not begun: %s. Give its workflow to an engine with a worker: "
                "Engine(..., workflows=[...]), or start `stepwell worker`",
                *(handle.id, reason.text),
            )


async def _scope_hold(store: Store, run: RunRow, ticket: TicketRow) -> ScopeHold | None:
    if ticket.held is not None or ticket.ending:
        return None
    return covering(await store.list_holds(run.workspace), run.workspace, run.workflow, ticket.queue)


async def _full_limit(store: Store, run: RunRow, ticket: TicketRow) -> FullLimit | None:
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
    return FullLimit(str(limit.scope), limit.limit or 0, slots.used(limit), await _holders(store, run, limit))


async def _holders(store: Store, run: RunRow, limit: Limit) -> list[str]:
    """Return some of the runs that hold its slots: enough for a person, not a count."""
    statuses = (Status.RUNNING, Status.SUSPENDED) if limit.hold == "run" else (Status.RUNNING,)
    workflow = limit.name if limit.kind == "workflow" else ""
    candidates = RunFilter(workspace=run.workspace, workflow=workflow, statuses=statuses, limit=_HOLDERS_READ)
    holders: list[str] = []
    for other in await store.list_runs(candidates):
        # A run between two attempts, or waiting for a remote step, is running without a slot.
        tickets = [
            t for t in await store.read_tickets(other.id) if t.lane and (t.lease or limit.hold == "run")
        ]
        if any(read_lane(t.lane).is_in(limit.scope) for t in tickets):
            holders.append(other.id)
        if len(holders) == _HOLDERS_NAMED:
            break
    return holders
