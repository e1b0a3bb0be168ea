"""NotificationStore: the part of a store that keeps alerts, and notifications to send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stepwell.domain.alerts import Alert, AlertFinding, AlertQuery, TakenAlerts
from stepwell.domain.notifications import TAKEN_AT_ONCE, PendingNotification, TakenNotifications


class NotificationStore(Protocol):
    async def take_notifications(
        self, channels: Sequence[str], *, seconds: float, limit: int = TAKEN_AT_ONCE
    ) -> TakenNotifications:
        """Take due notifications of these channels; nobody else gets them within `seconds`.

        After an unknown outcome the call may be repeated: what it took comes back after that time.
        """
        ...

    async def settle_notification(
        self,
        id: str,
        attempt: int,
        *,
        retry_in: float | None = None,
        error: str = "",
        more: Sequence[PendingNotification] = (),
    ) -> bool:
        """Record how an attempt ended; without `retry_in`, it was the last one.

        `more` are written with it, each id once. False, with nothing written: somebody took it since, or it
        was settled before.
        """
        ...

    async def purge_notifications(self, older_than: float, *, limit: int = 500) -> int:
        """Delete notifications that ended `older_than` seconds ago, or waited for a day longer than that.

        The latter are for channels that no process has any longer. Deletes at most `limit`, and returns how
        many.
        """
        ...

    async def put_alert(self, alert: Alert) -> None:
        """Write an alert, due now. An existing one with its name keeps its id and incidents."""
        ...

    async def list_alerts(self, workspace: str, *, name: str = "") -> Sequence[Alert]:
        """Return a workspace's alerts by name, or the one named; for '', those of all workspaces."""
        ...

    async def drop_alert(self, workspace: str, name: str) -> bool:
        """Delete it. False if there is none."""
        ...

    async def take_alerts(self, *, limit: int = 20) -> TakenAlerts:
        """Take alerts that are due for a check. The next check of each is due after its `every`.

        Each alert's turn grows: the result of an earlier taker no longer counts.
        """
        ...

    async def settle_alert(
        self, id: str, turn: int, incidents: bytes, notifications: Sequence[PendingNotification]
    ) -> bool:
        """Write the result of a check, with its notifications. False if the alert has another turn."""
        ...

    async def find(self, query: AlertQuery) -> Sequence[AlertFinding]:
        """Answer an alert's question from indexes: reads findings and groups, not all runs.

        Returns at most `limit` findings per subject, the oldest first. Does not read workers.
        """
        ...
