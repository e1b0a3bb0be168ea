"""Limits of the SQLite store: what was set, and what is used of it."""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.domain.limits import LaneUse, Limit, Scope, Slots, rest_counts
from stepwell.store.sqlite.session import Session


def slots_now(session: Session, lanes: Iterable[str]) -> Slots:
    """What these lanes may still take."""
    table = limits(session, None)
    resting = _counts(session, "resting_lanes") if rest_counts(table, lanes) else {}
    return Slots(table, _counts(session, "leased_lanes"), resting)


def _counts(session: Session, name: str) -> dict[str, int]:
    return {lane: count for lane, count in session.rows(name)}  # for the types


def limits(session: Session, _: None) -> list[Limit]:
    return [
        Limit(kind=kind, workspace=workspace, name=name, most=most, hold=hold)
        for kind, workspace, name, most, hold in session.rows("read_limits")
    ]


def lanes(session: Session, _: None) -> list[LaneUse]:
    leased, resting = _counts(session, "leased_lanes"), _counts(session, "resting_lanes")
    return [LaneUse(lane, leased.get(lane, 0), resting.get(lane, 0)) for lane in sorted(leased | resting)]


def put_limit(session: Session, limit: Limit) -> None:
    session.run("put_limit", *limit.scope, limit.most, limit.hold)


def drop_limit(session: Session, scope: Scope) -> bool:
    return session.row("drop_limit", *scope) is not None
