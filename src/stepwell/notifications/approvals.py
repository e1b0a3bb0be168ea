"""Approvals: the messages to assignees about an open approval, with the link that decides it.

A run writes one notification for each approval, reminder and reassignment, in the commit that records it.
Here it becomes one for each assignee, so that each is sent and retried separately. The link is created when
the message is sent, because its text is stored nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from stepwell.channels.notification import Notification
from stepwell.client import Client, RunHandle
from stepwell.client.approval_links import opened_at
from stepwell.client.keys import NewCredential, revoke
from stepwell.domain import events as ev
from stepwell.domain.ids import RunId
from stepwell.domain.notifications import PendingNotification
from stepwell.domain.state import OpenWait
from stepwell.errors import StepwellError, StoreError
from stepwell.notifications.drafts import Expansion, Needless, NotificationDraft, one_line
from stepwell.notifications.settings import Notifications

Moment = Literal["opened", "reminded", "reassigned"]
_BY = "stepwell"
_TITLE_MAX = 200
_SUBJECTS: dict[str, str] = {"opened": "Approval", "reminded": "Reminder", "reassigned": "Approval"}


class ApprovalBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The event to report: to all assignees, or to one."""

    path: str
    seq: int
    assignee: str = ""
    moment: Moment = "opened"


class ApprovalNotifications:
    def __init__(self, client: Client, notifications: Notifications) -> None:
        self._client = client
        self._notifications = notifications

    async def draft(self, row: PendingNotification) -> NotificationDraft | Expansion:
        """Return the message, or one notification for each assignee. Needless if there is nothing to send."""
        body = msgspec.json.decode(row.body, type=ApprovalBody)
        run = self._client.within(row.workspace).handle(row.run_id)
        try:
            wait = (await run.state()).waits.get(body.path)
        except StoreError:
            raise
        except StepwellError as error:
            raise Needless(error.code) from None
        if wait is None or wait.what != "approval" or await opened_at(run.log(), body.path) > body.seq:
            raise Needless("CLOSED")
        if not body.assignee:
            return await self._each(row, body, wait)
        return await self._to(row, body, run, wait)

    async def _each(self, row: PendingNotification, body: ApprovalBody, wait: OpenWait) -> Expansion:
        moment, assignees = await self._occasion(row, body, wait)
        more = []
        for assignee in dict.fromkeys(assignees):
            mine = replace(body, assignee=assignee, moment=moment)
            more.append(replace(row, id=f"{row.id}/{assignee}", body=msgspec.json.encode(mine)))
        return Expansion(more)

    async def _occasion(
        self, row: PendingNotification, body: ApprovalBody, wait: OpenWait
    ) -> tuple[Moment, Sequence[str]]:
        """Return what happened, and whom to notify: assignees who have not approved yet."""
        store = self._client.store
        log = [
            ev.read(each, RunId(row.run_id))
            for each in await store.read_log(RunId(row.run_id), after=body.seq - 1, limit=1)
        ]
        fact = log[0].fact if log else None
        left = [one for one in wait.assignees if one not in wait.approved_by]
        if isinstance(fact, ev.WaitReminded):
            return "reminded", left
        if isinstance(fact, ev.WaitReassigned):
            return "reassigned", [one for one in fact.assignees if one in left]
        return "opened", left

    async def _to(
        self, row: PendingNotification, body: ApprovalBody, run: RunHandle[Any], wait: OpenWait
    ) -> NotificationDraft:
        address = self._notifications.address_of(body.assignee)
        info = await run.info()
        title = one_line(wait.title or wait.name or wait.path, _TITLE_MAX)
        link, url = await self._link(run, body)
        lines = [wait.title or wait.path, "", f"Run {info.id} of {info.workflow} waits for your decision."]
        if wait.due_at is not None:
            lines.append(f"It waits until {datetime.fromtimestamp(wait.due_at, UTC):%Y-%m-%d %H:%M} UTC.")
        if url:
            lines += ["", "Decide here, once:", url, "", f"The link decides as {body.assignee}. Keep it."]
        data = {
            "event": body.moment,
            "run": info.id,
            "workflow": info.workflow,
            "path": wait.path,
            "title": wait.title,
            "assignee": body.assignee,
            "link": url,
        }
        notification = Notification(
            id=row.id,
            type="stepwell.approval",
            subject=f"{_SUBJECTS[body.moment]}: {title}",
            text="\n".join(lines),
            to=(address,) if address else (),
            data=data,
        )
        return NotificationDraft(notification, needs_address=True, withdraw=lambda: self._withdraw(link))

    async def _link(self, run: RunHandle[Any], body: ApprovalBody) -> tuple[NewCredential | None, str]:
        if not self._notifications.url:
            return None, ""
        try:
            link = await run.approval_link(body.assignee, path=body.path, by=_BY)
        except StoreError:
            raise
        except StepwellError as error:  # decided meanwhile, or the assignee may not decide it
            raise Needless(error.code) from None
        return link, self._notifications.link(f"/approve#{link.text}")

    async def _withdraw(self, link: NewCredential | None) -> None:
        """Revoke a link that certainly reached nobody."""
        if link is not None:
            await revoke(self._client, link.credential, by=_BY)
