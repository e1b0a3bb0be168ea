"""Notifications and alerts of the SQLite store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple, replace

from stepwell.domain.alerts import (
    Alert,
    AlertFinding,
    AlertQuery,
    LiveGroup,
    TakenAlerts,
    few_and_many,
    oldest,
    settings_of,
)
from stepwell.domain.notifications import (
    GIVEN_UP_SECONDS,
    TAKEN_AT_ONCE,
    PendingNotification,
    TakenNotifications,
)
from stepwell.store.sqlite.session import Row, Session, as_list

_KINDS_MAX = 1000  # kinds of work that a question about stuck runs examines


def add_notifications(session: Session, rows: Sequence[PendingNotification]) -> None:
    session.many(
        "add_notification",
        [(row.id, row.workspace, row.kind, row.channel, row.run_id, row.body, session.now) for row in rows],
    )


def no_notification_due(
    session: Session, channels: Sequence[str], *, seconds: float, limit: int = TAKEN_AT_ONCE
) -> TakenNotifications | None:
    """Return the answer if none is due; None if there is work to do."""
    next_in = _next_notification(session, channels)
    return None if next_in == 0 else TakenNotifications([], next_in, session.now)


def take_notifications(
    session: Session, channels: Sequence[str], *, seconds: float, limit: int = TAKEN_AT_ONCE
) -> TakenNotifications:
    until = session.now + seconds
    rows: list[Row] = []
    for channel in channels:
        rows += session.rows("take_notifications", channel, session.now, until, limit - len(rows))
    return TakenNotifications(
        [_notification(row) for row in rows],
        _next_notification(session, channels),
        session.now,
    )


def _next_notification(session: Session, channels: Sequence[str]) -> float | None:
    row = session.row("next_notification", as_list(channels))
    return None if row is None or row[0] is None else max(0.0, row[0] - session.now)


def settle_notification(
    session: Session,
    id: str,
    attempt: int,
    *,
    retry_in: float | None = None,
    error: str = "",
    more: Sequence[PendingNotification] = (),
) -> bool:
    due = None if retry_in is None else session.now + retry_in
    ended = session.now if retry_in is None else None
    if session.row("settle_notification", id, attempt, due, ended, error) is None:
        return False
    if more:
        add_notifications(session, more)
    return True


def purge_notifications(session: Session, older_than: float, *, limit: int = 500) -> int:
    ended = len(list(session.rows("purge_notifications", session.now - older_than, limit)))
    due = session.now - older_than - GIVEN_UP_SECONDS
    return ended + len(list(session.rows("purge_untaken", due, limit - ended)))


def _notification(row: Row) -> PendingNotification:
    return PendingNotification(**dict(zip(PendingNotification.__struct_fields__, row, strict=True)))


# Alerts


def put_alert(session: Session, alert: Alert) -> None:
    session.run("put_alert", *astuple(replace(alert, check_at=session.now)))


def list_alerts(session: Session, workspace: str, *, name: str = "") -> Sequence[Alert]:
    return [_alert(row) for row in session.rows("list_alerts", workspace, name)]


def drop_alert(session: Session, workspace: str, name: str) -> bool:
    return session.row("drop_alert", workspace, name) is not None


def no_alert_due(session: Session, *, limit: int = 20) -> TakenAlerts | None:
    """Return the answer if none is due; None if there is work to do."""
    next_in = _next_alert(session)
    return None if next_in == 0 else TakenAlerts([], next_in, session.now)


def take_alerts(session: Session, *, limit: int = 20) -> TakenAlerts:
    taken = []
    for row in list(session.rows("due_alerts", session.now, limit)):
        alert = _alert(row)
        check_at = session.now + settings_of(alert).every
        taken.append(replace(alert, check_at=check_at, turn=alert.turn + 1))
    session.many("take_alert", [(alert.id, alert.check_at, alert.turn) for alert in taken])
    return TakenAlerts(taken, _next_alert(session), session.now)


def _next_alert(session: Session) -> float | None:
    row = session.row("next_alert")
    return None if row is None or row[0] is None else max(0.0, row[0] - session.now)


def settle_alert(
    session: Session, id: str, turn: int, incidents: bytes, notifications: Sequence[PendingNotification]
) -> bool:
    if session.row("settle_alert", id, turn, incidents) is None:
        return False
    if notifications:
        add_notifications(session, notifications)
    return True


def _alert(row: Row) -> Alert:
    values = dict(zip(Alert.__struct_fields__, row, strict=True))
    return Alert(**{**values, "paused": bool(values["paused"])})


# Questions of alerts


def find(session: Session, query: AlertQuery) -> Sequence[AlertFinding]:
    if query.what == "full_queue":
        row = session.row("count_waiting", query.workspace, query.queue)
        return [AlertFinding(query.queue, "", query.at, row[0])] if row is not None and row[0] else []
    if query.what == "failed":
        return _by_workflow(session, "find_failed", ("failed", "timed_out"), query)
    if query.what == "overdue":
        return _by_workflow(session, "find_overdue", ("pending", "running", "suspended"), query)
    return _stuck(session, query) if query.what == "stuck" else []


def _by_workflow(
    session: Session, name: str, statuses: Sequence[str], query: AlertQuery
) -> Sequence[AlertFinding]:
    groups = session.rows("groups_with", query.workspace, as_list(statuses), query.workflow)
    findings: dict[str, list[AlertFinding]] = {}
    for workflow, version, queue, status in list(groups):
        place = (query.workspace, workflow, version, queue, status)
        rows = session.rows(name, *place, query.at, query.limit)
        findings.setdefault(workflow, []).extend(AlertFinding(workflow, run, at) for run, at in rows)
    return oldest(findings.values(), query.limit)


def _stuck(session: Session, query: AlertQuery) -> Sequence[AlertFinding]:
    groups = session.rows("live_groups", query.workspace, query.workflow)
    few, many = few_and_many([LiveGroup(*row) for row in groups], query.few)
    rows: list[Row] = []
    for group in few:
        rows += session.rows("find_stuck_of_few", query.workspace, *group[:4], query.at)
    asked = [(query.workspace, query.at, workflow) for workflow in many]
    for each in asked:
        rows += session.rows("find_silent", *each)
        rows += session.rows("find_untaken_lanes", *each, query.limit)
    kind = session.row("first_kind") if asked else None
    for _ in range(_KINDS_MAX):
        if kind is None:
            break
        for each in asked:
            rows += session.rows("find_untaken", *each, query.limit, *kind)
        kind = session.row("next_kind", *kind)
    findings: dict[str, list[AlertFinding]] = {}
    for workflow, run, at in rows:
        findings.setdefault(workflow, []).append(AlertFinding(workflow, run, at))
    return oldest(findings.values(), query.limit)
