"""WebhookChannel: an address of the operator that receives signed requests (Standard Webhooks)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stepwell.channels.errors import NotifyError, refused
from stepwell.channels.notification import Notification, checked_recipients
from stepwell.domain.codec import PLAIN
from stepwell.domain.triggers.webhook import signature
from stepwell.errors import SettingsInvalid
from stepwell.outbound.errors import OutboundError, OutboundRefused
from stepwell.outbound.request import OutboundRequest

if TYPE_CHECKING:
    from stepwell.outbound.client import OutboundClient

_ANSWER_MAX = 64 * 1024  # bytes to read of an answer, which nothing uses
_GONE = 410


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookChannel:
    """Signed requests to one address: `WebhookChannel(url="https://ops.example.com/in", secret="ops-hook")`.

    `secret` names the secret that signs. Redirects are not followed.
    """

    url: str
    secret: str
    timeout: float = 15.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment:
            raise SettingsInvalid(
                "a webhook channel has an address that is not http:// or https://",
                hint='write url="https://ops.example.com/in"',
            )
        if not self.secret:
            raise SettingsInvalid(
                "a webhook channel needs the name of the secret that signs its requests",
                hint="set one: stepwell secrets set NAME",
            )
        if not 0 < self.timeout <= 120:
            raise SettingsInvalid(f"a webhook channel has timeout={self.timeout:g}", hint="1 to 120 seconds")

    async def send(
        self, notification: Notification, *, password: str, now: float, client: OutboundClient
    ) -> dict[str, Any]:
        """Send once; any 2xx is success. The id identifies the notification, the timestamp the attempt."""
        checked_recipients(notification.to)
        body = PLAIN.encode(payload_of(notification))
        time = int(now)
        request = OutboundRequest(
            method="POST",
            url=self.url,
            headers={
                "content-type": "application/json",
                "webhook-id": notification.id,
                "webhook-timestamp": str(time),
                "webhook-signature": signature(password, notification.id, time, body),
            },
            body=body,
            timeout=self.timeout,
            response_bytes_max=_ANSWER_MAX,
            redirects_max=0,
        )
        try:
            answer = await client.send(request)
        except OutboundRefused as error:
            raise refused(error.code, error.message, hint=error.hint) from None
        except OutboundError as error:
            if error.code != "RESPONSE_TOO_LARGE":
                raise NotifyError(
                    error.code, error.message, hint=error.hint, permanent=error.permanent
                ) from None
            return {"id": notification.id, "status": 200}
        if 200 <= answer.status < 300:
            return {"id": notification.id, "status": answer.status}
        raise NotifyError(
            f"HTTP_{answer.status}",
            f"the receiver of the webhook answered {answer.status}",
            hint="it no longer wants any" if answer.status == _GONE else "",
            permanent=not answer.is_temporary,
            after=answer.retry_after(now),
        )


def payload_of(notification: Notification) -> dict[str, Any]:
    """Return the body of a webhook, which is the same on every attempt."""
    data = notification.data
    if data is None:
        data = {"subject": notification.subject, "text": notification.text}
        if notification.to:
            data["to"] = list(notification.to)
    return {"type": notification.type, "id": notification.id, "data": data}
