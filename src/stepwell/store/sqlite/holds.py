"""Holds of the SQLite store: runs that no worker may take."""

from __future__ import annotations

from stepwell.domain.commit import HoldOutcome
from stepwell.domain.events import written
from stepwell.domain.holds import HOLD, HoldRequest, hold_refusal
from stepwell.domain.ids import RunId
from stepwell.domain.scope_holds import ScopeHold
from stepwell.store.base import Encode
from stepwell.store.sqlite.messages import deliver
from stepwell.store.sqlite.session import Row, Session


def hold(
    session: Session,
    run_id: RunId,
    *,
    held: bool = True,
    by: str = "",
    reason: str = "",
    encode: Encode = bytes,
) -> HoldOutcome:
    row = session.row("run_to_hold", run_id, HOLD)
    if row is None:
        return HoldOutcome.UNKNOWN
    ticket, lease, ending, head, wakes, at, is_held, waiting = row
    if ticket is None:
        return HoldOutcome.ENDED
    asked = HoldRequest(held=held, by=by, reason=reason)
    refusal = hold_refusal(asked, ending=bool(ending), held=bool(is_held))
    if refusal is not None:
        return refusal
    if lease is not None or waiting:
        deliver(session, [[asked.message(run_id, wakes, encode)]])
    else:
        at = max(session.now, at)
        event = written(asked.fact)
        payload = encode(event.payload)
        session.run("insert_event", run_id, head + 1, event.kind, event.path, event.attempt, at, payload)
        session.run("grow_log", run_id, head + 1, at)
    session.run("mark_held", run_id, asked.mark(session.now, encode))
    return HoldOutcome.CHANGED


def hold_scope(session: Session, hold: ScopeHold) -> bool:
    if not hold.held and not any(
        row[:3] == (hold.kind, hold.workspace, hold.name) for row in session.rows("active_holds")
    ):
        return False  # it was never held, so it gets no row
    values = (hold.kind, hold.workspace, hold.name, int(hold.held), hold.by, hold.reason, session.now)
    return session.row("put_hold", *values) is not None


def list_holds(session: Session, workspace: str) -> list[ScopeHold]:
    return [_scope_hold(row) for row in session.rows("list_holds", workspace)]


def active_holds(session: Session) -> list[ScopeHold]:
    """Return what is held now, in all workspaces."""
    return [_scope_hold(row) for row in session.rows("active_holds")]


def _scope_hold(row: Row) -> ScopeHold:
    return ScopeHold(*row)._replace(held=bool(row[3]))
