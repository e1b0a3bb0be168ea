"""NotificationSender: sends the notifications of the channels that this process has, each once if it can.

A notification is taken for a while, sent, and settled. Who dies in between leaves it to another process,
which sends it again under the same id. Nothing here can fail a run: it only reads them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter

from msgspec.structs import replace

from stepwell.channels.channels import Channels
from stepwell.channels.errors import NotifyError
from stepwell.channels.mail import MailChannel
from stepwell.channels.notification import id_of
from stepwell.domain.notifications import (
    ALERT,
    TAKEN_SECONDS,
    PendingNotification,
    retry_delay,
)
from stepwell.errors import StepwellError, StoreError
from stepwell.notifications.alerts import alert_draft
from stepwell.notifications.approvals import ApprovalNotifications
from stepwell.notifications.drafts import Expansion, Needless, NotificationDraft
from stepwell.notifications.settings import Notifications
from stepwell.store.base import Store

_log = logging.getLogger("stepwell.notifications")
OUTCOMES = ("sent", "failed", "given_up", "needless")
_REFUSED = re.compile(r"(SMTP|HTTP)_\d{3}")


class NotificationSender:
    def __init__(
        self, store: Store, channels: Channels, approvals: ApprovalNotifications, notifications: Notifications
    ) -> None:
        self._store = store
        self._channels = channels
        self._approvals = approvals
        self._notifications = notifications
        self.outcomes: Counter[str] = Counter()  # of OUTCOMES

    @property
    def channels(self) -> list[str]:
        return sorted(self._channels.named)

    async def send_due(self, channel: str) -> float | None:
        """Send what is due on a channel; returns in how many seconds the next one is, None if there is none.

        Channels are for different servers: one that hangs must not hold up the others.
        """
        while True:
            taken = await self._store.take_notifications([channel], seconds=TAKEN_SECONDS)
            if not taken.rows:
                return taken.next_in
            async with asyncio.TaskGroup() as group:
                for row in taken.rows:
                    group.create_task(self._send_one(row, taken.now))

    async def _send_one(self, row: PendingNotification, now: float) -> None:
        """Send one; whatever goes wrong, the others go on."""
        try:
            await self._send(row, now)
        except Exception:  # taken again when its time is over
            _log.exception("notification %s was not settled", row.id)

    async def _send(self, row: PendingNotification, now: float) -> None:
        """Send one; what went wrong is tried again or given up."""
        draft: NotificationDraft | None = None
        try:
            made = await self._draft(row)
            if isinstance(made, Expansion):
                await self._store.settle_notification(row.id, row.attempt, more=made.rows)
                return
            draft = made
            await self._deliver(row, draft)
        except Needless as needless:
            await self._end(row, "needless", needless.reason)
        except NotifyError as error:
            await self._failed(row, now, draft, error)
        except StoreError as error:  # taken again when its time is over
            _log.warning("notification %s was not settled: %s", row.id, error.message)
        except StepwellError as error:
            await self._failed(row, now, draft, NotifyError(error.code, error.message, hint=error.hint))
        except Exception as error:
            _log.exception("notification %s cannot be written", row.id)
            failure = NotifyError("NOTIFY_ERROR", type(error).__name__)
            await self._failed(row, now, draft, failure)
        else:
            await self._end(row, "sent", "")

    async def _draft(self, row: PendingNotification) -> NotificationDraft | Expansion:
        if row.kind == ALERT:
            return alert_draft(row, self._notifications)
        return await self._approvals.draft(row)

    async def _deliver(self, row: PendingNotification, draft: NotificationDraft) -> None:
        notification = draft.notification
        mail = isinstance(self._channels.of(row.channel), MailChannel)
        if mail and draft.needs_address and not notification.to:
            await self._withdrawn(draft)
            raise Needless("NO_ADDRESS")
        await self._channels.send(row.channel, replace(notification, id=id_of(row.id)))

    async def _failed(
        self, row: PendingNotification, now: float, draft: NotificationDraft | None, error: NotifyError
    ) -> None:
        delay = None if error.permanent else retry_delay(row, now, error.after)
        if draft is not None and (error.permanent or _REFUSED.fullmatch(error.code)):
            await self._withdrawn(draft)  # otherwise it may have arrived, and its link must work
        if delay is None:
            _log.error("notification %s was given up: %s", row.id, error.message)
            await self._end(row, "given_up", error.code)
            return
        _log.warning("notification %s is tried again in %g s: %s", row.id, delay, error.message)
        self.outcomes["failed"] += 1
        await self._settle(row, retry_in=delay, error=error.code)

    async def _withdrawn(self, draft: NotificationDraft) -> None:
        try:
            await draft.withdraw()
        except Exception as error:  # what is not said would be sent again with another link
            _log.warning("a link could not be withdrawn: %s", error)

    async def _end(self, row: PendingNotification, outcome: str, error: str) -> None:
        self.outcomes[outcome] += 1
        if outcome == "needless":
            _log.info("notification %s is not sent: %s", row.id, error)
        await self._settle(row, error=error)

    async def _settle(self, row: PendingNotification, *, retry_in: float | None = None, error: str) -> None:
        try:
            await self._store.settle_notification(row.id, row.attempt, retry_in=retry_in, error=error)
        except StoreError as fault:
            _log.warning("notification %s was not settled: %s", row.id, fault.message)
