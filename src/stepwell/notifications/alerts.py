"""Alerts: checks those that are due, and writes notifications of what it finds.

Many processes do this. The store gives each check to one of them, and accepts the result only if no later
check has begun. Notifications are written with the result. So a process that dies between two steps leaves
the alert to another one, and nothing is sent twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from stepwell.channels.notification import Notification
from stepwell.domain.alerts import (
    Alert,
    AlertFinding,
    AlertSettings,
    Moment,
    Report,
    check,
    query_of,
    settings_of,
)
from stepwell.domain.notifications import ALERT, PendingNotification
from stepwell.notifications.drafts import NotificationDraft, one_line
from stepwell.notifications.settings import Notifications
from stepwell.store.base import Store

_NAME_MAX = 100


class AlertBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to report about an incident: names, numbers and ids, but no values of runs."""

    alert: str
    what: str
    moment: Moment
    subject: str
    at: float
    since: float
    count: int
    after: float
    runs: tuple[str, ...] = ()
    to: tuple[str, ...] = ()


class AlertChecks:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def check_due(self) -> float | None:
        """Check what is due. Returns the seconds until the next check, or None if there is none."""
        taken = await self._store.take_alerts()
        for alert in taken.rows:
            await self._check(alert, taken.now)
        return taken.next_in

    async def _check(self, alert: Alert, now: float) -> None:
        checked = check(alert, await self._findings(alert, now), now)
        settings = settings_of(alert)
        rows = [_notification(alert, settings, report, now) for report in checked.reports]
        incidents = msgspec.json.encode(checked.incidents)
        if incidents != alert.incidents or rows:
            await self._store.settle_alert(alert.id, alert.turn, incidents, rows if settings.channel else [])

    async def _findings(self, alert: Alert, now: float) -> Sequence[AlertFinding]:
        settings = settings_of(alert)
        if settings.what != "no_worker":
            return await self._store.find(query_of(alert, now))
        for worker in await self._store.list_workers():
            works = worker.lease_until > now and not worker.leaving and worker.draining is None
            if works and settings.queue in worker.queues:
                return []
        return [AlertFinding(settings.queue, "", now)]


def _notification(alert: Alert, settings: AlertSettings, report: Report, now: float) -> PendingNotification:
    incident = report.incident
    body = AlertBody(
        alert=alert.name,
        what=settings.what,
        moment=report.moment,
        subject=incident.subject,
        at=now,
        since=incident.since,
        count=incident.count,
        after=settings.after,
        runs=incident.runs if report.moment != "resolved" else (),
        to=settings.to,
    )
    return PendingNotification(
        id=report.key,
        kind=ALERT,
        channel=settings.channel,
        body=msgspec.json.encode(body),
        workspace=alert.workspace,
    )


def alert_draft(row: PendingNotification, notifications: Notifications) -> NotificationDraft:
    """Write the message about an incident."""
    body = msgspec.json.decode(row.body, type=AlertBody)
    sentence = _sentence(body)
    beginning = {"opened": "Alert", "repeated": "Still", "resolved": "Resolved"}[body.moment]
    lines = [f"{beginning}: {sentence}.", "", f"Alert {body.alert}, workspace {row.workspace}."]
    lines.append(f"Since {_time(body.since)}, seen {_time(body.at)}.")
    links = [notifications.link(f"/runs/{run}") or run for run in body.runs]
    if links:
        lines += ["", *links]
    if body.count > len(links) > 0:
        lines.append(f"and {body.count - len(links)} more")
    data: dict[str, Any] = {
        "alert": body.alert,
        "workspace": row.workspace,
        "what": body.what,
        "event": body.moment,
        "subject": body.subject,
        "count": body.count,
        "since": _time(body.since),
        "at": _time(body.at),
        "runs": list(body.runs),
        "links": [notifications.link(f"/runs/{run}") for run in body.runs] if notifications.url else [],
    }
    subject = one_line(f"{beginning}: {sentence}", 300)
    return NotificationDraft(
        Notification(
            id=row.id, type="stepwell.alert", subject=subject, text="\n".join(lines), to=body.to, data=data
        )
    )


def _sentence(body: AlertBody) -> str:
    name = one_line(body.subject, _NAME_MAX)
    count = f"{body.count} run{'' if body.count == 1 else 's'} of {name}"
    if body.what == "failed":
        return f"{count} failed"
    if body.what == "stuck":
        return f"{count} made no progress for {_length(body.after)}"
    if body.what == "overdue":
        return f"{count} took longer than {_length(body.after)}"
    if body.what == "no_worker":
        return f"no worker serves the queue {name}"
    return f"{body.count} runs wait in the queue {name}"


def _length(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
