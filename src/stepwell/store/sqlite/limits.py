"""Limits of the SQLite store, and how much of them is used."""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.domain.admission import FreeSlots, counts_suspended
from stepwell.domain.commit import ClaimRequest
from stepwell.domain.lanes import Lane, LaneUse, LimitCoverage
from stepwell.domain.limits import Limit, LimitScope
from stepwell.store.sqlite.holds import active_holds
from stepwell.store.sqlite.session import Row, Session

LANES_AT_ONCE = 1000  # assigned in one claim; the next claim continues


def slots_now(session: Session, lanes: Iterable[str]) -> FreeSlots:
    """The free slots of these lanes."""
    table = read_limits(session)
    resting = _counts(session, "resting_lanes") if counts_suspended(table, lanes) else {}
    return FreeSlots(table, _counts(session, "leased_lanes"), resting, active_holds(session))


def give_lanes(session: Session, request: ClaimRequest, coverage: LimitCoverage) -> bool:
    """Assign lanes to runs within reach of a limit that was set; True: there are more."""
    owned = [row for row in session.rows("owned_without_lane") if coverage.covers(row[3], row[5])]
    waiting: list[Row] = []
    kind = "solo" if request.solo else "open"
    for queue in dict.fromkeys(request.queues):
        for needs in dict.fromkeys(request.needs):
            if coverage.covers(queue, needs) and len(waiting) < LANES_AT_ONCE:
                waiting += session.rows(f"{kind}_without_lane", queue, needs, LANES_AT_ONCE)
    session.many(
        "give_lane",
        [
            (run_id, Lane(workspace, workflow, queue, child=bool(child), exempt=bool(exempt)).text, path)
            for run_id, workspace, workflow, queue, child, _, path, exempt in owned + waiting
        ],
    )
    return len(waiting) >= LANES_AT_ONCE


def _counts(session: Session, name: str) -> dict[str, int]:
    return {lane: count for lane, count in session.rows(name)}  # for the types


def read_limits(session: Session) -> list[Limit]:
    return [
        Limit(kind=kind, workspace=workspace, name=name, limit=limit, hold=hold, by=by)
        for kind, workspace, name, limit, hold, by in session.rows("read_limits")
    ]


def read_lanes(session: Session) -> list[LaneUse]:
    leased, resting = _counts(session, "leased_lanes"), _counts(session, "resting_lanes")
    return [LaneUse(lane, leased.get(lane, 0), resting.get(lane, 0)) for lane in sorted(leased | resting)]


def put_limit(session: Session, limit: Limit) -> None:
    session.run("put_limit", *limit.scope, limit.limit, limit.hold, limit.by)


def drop_limit(session: Session, scope: LimitScope) -> bool:
    return session.row("drop_limit", *scope) is not None
