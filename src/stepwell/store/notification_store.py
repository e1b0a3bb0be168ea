"""NotificationStore: the part of a store that keeps alerts, and notifications that have to be sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stepwell.domain.alerts import Alert, AlertFinding, AlertQuery, TakenAlerts
from stepwell.domain.notifications import TAKEN_AT_ONCE, PendingNotification, TakenNotifications


class NotificationStore(Protocol):
    async def take_notifications(
        self, channels: Sequence[str], *, seconds: float, limit: int = TAKEN_AT_ONCE
    ) -> TakenNotifications:
        """Take those of these channels that are due; nobody else gets them within `seconds`.

        After an unknown outcome the call may be made again: what it took comes back when that time is over.
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
        """Note how an attempt ended: without `retry_in` it is over. `more` are written with it, each id once.

        False: somebody took it since, or it was settled before; nothing was written.
        """
        ...

    async def purge_notifications(self, older_than: float, *, limit: int = 500) -> int:
        """Delete some that ended `older_than` seconds ago, or that nobody took for a day before that.

        The latter are for channels that no process has any longer. Returns how many it deleted.
        """
        ...

    async def put_alert(self, alert: Alert) -> None:
        """Write an alert, due now. One of its name gets its settings, and keeps its id and incidents."""
        ...

    async def list_alerts(self, workspace: str, *, name: str = "") -> Sequence[Alert]:
        """The alerts of a workspace, sorted by name, or that one; of all workspaces if it is ''."""
        ...

    async def drop_alert(self, workspace: str, name: str) -> bool:
        """False: there is none."""
        ...

    async def take_alerts(self, *, limit: int = 20) -> TakenAlerts:
        """Take alerts that are due for a check; the next check of each is due after its `every`.

        The turn of each grows: what somebody who took it before finds counts no longer.
        """
        ...

    async def settle_alert(
        self, id: str, turn: int, incidents: bytes, notifications: Sequence[PendingNotification]
    ) -> bool:
        """Write what a check found, with what has to be said. False: it is no longer that turn."""
        ...

    async def find(self, query: AlertQuery) -> Sequence[AlertFinding]:
        """Answer a question of an alert from indexes: it reads findings and groups, not all runs.

        At most `limit` findings of a subject, the oldest first. Workers are not looked at.
        """
        ...
