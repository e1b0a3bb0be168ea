"""Notifications and alerts of the memory store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from stepwell.domain.alerts import Alert, AlertFinding, AlertQuery, TakenAlerts, oldest, settings_of
from stepwell.domain.ids import RunId
from stepwell.domain.notifications import (
    GIVEN_UP_SECONDS,
    TAKEN_AT_ONCE,
    PendingNotification,
    TakenNotifications,
)
from stepwell.domain.status import Status
from stepwell.store.memory.tables import Run, Tables
from stepwell.store.memory.verb import transaction

_FAILED = (Status.FAILED, Status.TIMED_OUT)


class MemoryNotifications(Tables):
    @transaction("notifications")
    async def take_notifications(
        self, channels: Sequence[str], *, seconds: float, limit: int = TAKEN_AT_ONCE
    ) -> TakenNotifications:
        now = self._clock()
        mine = [(due, id) for id, due in self._notifications_due.items() if self._channel(id) in channels]
        taken = [id for due, id in sorted(mine) if due <= now][:limit]
        for id in taken:
            self._notifications_due[id] = now + seconds
            row = self._notifications[id]
            self._notifications[id] = replace(row, attempt=row.attempt + 1)
        times = [due for id, due in self._notifications_due.items() if self._channel(id) in channels]
        next_in = max(0.0, min(times) - now) if times else None
        return TakenNotifications([self._notifications[id] for id in taken], next_in, now)

    def _channel(self, id: str) -> str:
        return self._notifications[id].channel

    @transaction("notifications")
    async def settle_notification(
        self,
        id: str,
        attempt: int,
        *,
        retry_in: float | None = None,
        error: str = "",
        more: Sequence[PendingNotification] = (),
    ) -> bool:
        row = self._notifications.get(id)
        if row is None or row.attempt != attempt or id not in self._notifications_due:
            return False
        now = self._clock()
        if retry_in is None:
            del self._notifications_due[id]
        else:
            self._notifications_due[id] = now + retry_in
        self._notifications[id] = replace(row, error=error, ended_at=now if retry_in is None else None)
        self._notify(more)
        return True

    @transaction("notifications")
    async def purge_notifications(self, older_than: float, *, limit: int = 500) -> int:
        until = self._clock() - older_than
        ended = [(row.ended_at, id) for id, row in self._notifications.items() if row.ended_at is not None]
        waiting = [(due + GIVEN_UP_SECONDS, id) for id, due in self._notifications_due.items()]
        old = [id for at, id in [*sorted(ended), *sorted(waiting)] if at < until][:limit]
        for id in old:
            del self._notifications[id]
            self._notifications_due.pop(id, None)
        return len(old)

    # Alerts

    @transaction("alerts")
    async def put_alert(self, alert: Alert) -> None:
        place = (alert.workspace, alert.name)
        known = self._alerts.get(place)
        alert = replace(alert, check_at=self._clock())
        if known is not None:
            alert = replace(alert, id=known.id, turn=known.turn + 1, incidents=known.incidents)
        self._alerts[place] = alert

    async def list_alerts(self, workspace: str, *, name: str = "") -> Sequence[Alert]:
        rows = [row for row in self._alerts.values() if workspace in ("", row.workspace)]
        rows = [row for row in rows if name in ("", row.name)]
        return sorted(rows, key=lambda row: (row.workspace.encode(), row.name.encode()))

    @transaction("alerts")
    async def drop_alert(self, workspace: str, name: str) -> bool:
        return self._alerts.pop((workspace, name), None) is not None

    @transaction("alerts")
    async def take_alerts(self, *, limit: int = 20) -> TakenAlerts:
        now = self._clock()
        waiting = sorted((row.check_at, row.id, row) for row in self._alerts.values() if not row.paused)
        taken = [
            replace(row, check_at=now + settings_of(row).every, turn=row.turn + 1)
            for at, _, row in waiting
            if at <= now
        ][:limit]
        for row in taken:
            self._alerts[row.workspace, row.name] = row
        times = [row.check_at for row in self._alerts.values() if not row.paused]
        return TakenAlerts(taken, max(0.0, min(times) - now) if times else None, now)

    @transaction("alerts")
    async def settle_alert(
        self, id: str, turn: int, incidents: bytes, notifications: Sequence[PendingNotification]
    ) -> bool:
        for place, row in self._alerts.items():
            if (row.id, row.turn) == (id, turn):
                self._alerts[place] = replace(row, incidents=incidents)
                self._notify(notifications)
                return True
        return False

    async def find(self, query: AlertQuery) -> Sequence[AlertFinding]:
        if query.what == "full_queue":
            waiting = [run for run in self._asked(query) if run.row.status is Status.PENDING]
            count = sum(not self._tickets[run.row.id, ""].lease for run in waiting)
            return [AlertFinding(query.queue, "", query.at, count)] if count else []
        if query.what == "failed":
            ended = [
                (run.row.ended_at or 0.0, run) for run in self._asked(query) if run.row.status in _FAILED
            ]
            dated = [(at, run) for at, run in ended if at > query.at]
        elif query.what == "overdue":
            live = [run for run in self._asked(query) if (run.row.id, "") in self._tickets]
            dated = [(run.row.created_at, run) for run in live if run.row.created_at <= query.at]
        elif query.what == "stuck":
            dated = [(at, self._runs[run_id]) for at, run_id in self._stuck(query)]
        else:
            return []
        findings: dict[str, list[AlertFinding]] = defaultdict(list)
        for at, run in dated:
            findings[run.row.workflow].append(AlertFinding(run.row.workflow, run.row.id, at))
        return oldest(findings.values(), query.limit)

    def _asked(self, query: AlertQuery) -> Iterator[Run]:
        for run in self._runs.values():
            row = run.row
            fits = query.workflow in ("", row.workflow) and query.queue in ("", run.queue)
            if fits and row.workspace == query.workspace and not row.test:
                yield run

    def _stuck(self, query: AlertQuery) -> Iterator[tuple[float, RunId]]:
        asked = {run.row.id for run in self._asked(query)}
        for (run_id, _), ticket in self._tickets.items():
            if run_id in asked and not ticket.held:
                at = ticket.at if ticket.lease else ticket.due_at
                if at <= query.at:
                    yield at, run_id
