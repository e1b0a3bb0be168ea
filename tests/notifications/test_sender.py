"""The sender of notifications: what one of them does to the others."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import msgspec
import pytest

from stepwell import Notifications
from stepwell.channels.notification import Notification
from stepwell.domain.alerts import Alert
from stepwell.domain.notifications import ALERT, APPROVAL, PendingNotification
from stepwell.notifications.alerts import AlertBody
from stepwell.notifications.approvals import ApprovalNotifications
from stepwell.notifications.drafts import NotificationDraft
from stepwell.notifications.sender import NotificationSender
from tests.channels.mail_server import Mail, MailServer, mail_server
from tests.engines import Engines, until


class Unwithdrawable(ApprovalNotifications):
    """Mails to the id of the notification, with links that cannot be withdrawn."""

    async def draft(self, row: PendingNotification) -> NotificationDraft:
        mail = Notification(
            id=row.id, type="stepwell.approval", subject="Hear", text=row.id, to=(f"{row.id}@example.com",)
        )
        return NotificationDraft(mail, withdraw=self._fail)

    async def _fail(self) -> NoReturn:
        raise RuntimeError("no link is withdrawn here")


@pytest.mark.req("N12")
async def test_a_send_that_fails_badly_leaves_the_others_alone(memory_engines: Engines) -> None:
    def answer(mail: Mail) -> str:
        return "451 later" if mail.recipients == ["bad@example.com"] else "250 OK"

    server = MailServer(answer=answer, silent=1)
    async with (
        mail_server(server),
        memory_engines.new(worker=False, channels={"ops": server.url()}) as engine,
    ):
        store, notices = engine.store, Notifications()
        await store.put_alert(Alert(id="a", name="a", settings=b'{"what":"failed"}'))
        [alert] = (await store.take_alerts()).rows
        rows = [
            PendingNotification(id=id, kind=APPROVAL, channel="ops", body=b"{}", workspace="default")
            for id in ("good", "bad")
        ]
        await store.settle_alert(alert.id, alert.turn, b"[]", rows)
        approvals = Unwithdrawable(engine, notices)
        sender = NotificationSender(store, engine._named_channels(), approvals, notices)

        sending = asyncio.create_task(sender.send_due("ops"))
        await until(lambda: len(server.attempts) == 2)  # one of them is not answered yet
        server.spoken.set()
        next_in = await sending

    assert [mail.recipients for mail in server.mails] == [["good@example.com"]]
    assert sender.outcomes == {"sent": 1, "failed": 1}
    assert next_in is not None
    assert next_in < 60.0  # the bad one is tried again after its delay


@pytest.mark.req("N12", "N26")
async def test_a_channel_that_hangs_does_not_hold_up_another_one(engines: Engines) -> None:
    hanging, fine = MailServer(silent=1), MailServer()
    async with mail_server(hanging), mail_server(fine):
        channels = {"a-hangs": hanging.url("&to=ann@example.com"), "fine": fine.url("&to=bob@example.com")}
        async with engines.new(worker=False, channels=channels) as engine:
            store = engine.store
            await store.put_alert(Alert(id="a", name="a", settings=b'{"what":"failed"}'))
            [alert] = (await store.take_alerts()).rows
            body = msgspec.json.encode(
                AlertBody(
                    alert="a",
                    what="failed",
                    moment="opened",
                    subject="x",
                    at=0.0,
                    since=0.0,
                    count=1,
                    after=0.0,
                )
            )
            rows = [
                PendingNotification(
                    id=f"{channel}/{n}", kind=ALERT, channel=channel, body=body, workspace="default"
                )
                for channel in channels
                for n in range(25)  # more than are taken at once
            ]
            await store.settle_alert(alert.id, alert.turn, b"[]", rows)
            engine.begin_notifications()
            await until(lambda: len(fine.mails) == 25 and hanging.attempts)
            sent = len(hanging.mails)
            hanging.spoken.set()

    assert sent < 25
