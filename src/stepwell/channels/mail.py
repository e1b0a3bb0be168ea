"""MailChannel: a mail server of the operator, and how a message is handed to it.

The library speaks SMTP and TLS. This module decides what may be sent and what an answer means. Each message
has a connection of its own, because mail servers close idle ones.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal, get_args

from stepwell.channels.errors import NotifyError, refused
from stepwell.channels.notification import Notification, Recipient, checked_recipient, checked_recipients
from stepwell.domain.notifications import SEND_SECONDS_MAX
from stepwell.errors import SettingsInvalid, excerpt

if TYPE_CHECKING:
    from email.message import EmailMessage

Tls = Literal["starttls", "tls", "none"]
_FAREWELL_SECONDS = 1.0
_PORTS: dict[str, int] = {"starttls": 587, "tls": 465, "none": 25}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailChannel:
    """Mail through one server: `MailChannel(host="smtp.example.com", sender="Stepwell <bot@example.com>")`.

    `tls` is "starttls" (the default), "tls" from the first byte, or "none". With `user` it signs in with the
    password in the secret named `secret`. `to` are the recipients of messages that name none; with `domains`
    it sends to addresses of these domains only.
    """

    host: str
    sender: str
    port: int | None = None
    tls: Tls = "starttls"
    user: str = ""
    secret: str = ""
    to: Sequence[str] = ()
    domains: Sequence[str] = ()
    timeout: float = 30.0  # seconds for the whole message

    def __post_init__(self) -> None:
        if not self.host or "/" in self.host or any(ord(c) <= 32 for c in self.host):
            raise SettingsInvalid(f"a mail channel has the host {excerpt(self.host)}", hint="name the server")
        if self.tls not in get_args(Tls):
            words = ", ".join(get_args(Tls))
            raise SettingsInvalid(f"a mail channel has tls={excerpt(self.tls)}", hint=f"use one of: {words}")
        if bool(self.user) != bool(self.secret):
            raise SettingsInvalid(
                "a mail channel signs in with a user and the name of a secret",
                hint="give both, or neither; set the password with `stepwell secrets set NAME`",
            )
        if self.user and self.tls == "none" and not _is_local(self.host):
            raise SettingsInvalid(
                "a mail channel would send its password without TLS", hint='use tls="starttls" or "tls"'
            )
        if not 0 < self.timeout <= SEND_SECONDS_MAX:
            raise SettingsInvalid(
                f"a mail channel has timeout={self.timeout:g}", hint=f"1 to {SEND_SECONDS_MAX:g} seconds"
            )
        try:
            checked_recipient(self.sender)
            checked_recipients(self.to)
        except NotifyError as error:
            raise SettingsInvalid(f"a mail channel: {error.message}", hint=error.hint) from None

    def recipients(self, notification: Notification) -> list[Recipient]:
        """Return the recipients. NotifyError if there are none, or one is not allowed."""
        wanted = checked_recipients(notification.to or self.to)
        if not wanted:
            raise refused(
                "RECIPIENT_MISSING",
                "the message has no recipient",
                hint="name one in `to`; an operator can give the channel recipients of its own",
                field="to",
            )
        allowed = {domain.lower() for domain in self.domains}
        for one in wanted:
            if allowed and one.domain not in allowed:
                raise refused(
                    "RECIPIENT_FORBIDDEN",
                    f"this channel does not send to {excerpt(one.address)}",
                    hint="an operator allows these domains: " + ", ".join(sorted(allowed)),
                    field="to",
                )
        return wanted

    async def send(
        self,
        notification: Notification,
        *,
        password: str,
        now: float,
        tls: Callable[[], ssl.SSLContext],
    ) -> dict[str, Any]:
        """Hand the message to the server, and return the recipients that it accepted."""
        import aiosmtplib

        recipients = self.recipients(notification)
        sender = checked_recipient(self.sender)
        message = composed(notification, sender, recipients, now)
        server = aiosmtplib.SMTP(
            hostname=self.host,
            port=self.port or _PORTS[self.tls],
            use_tls=self.tls == "tls",
            start_tls=self.tls == "starttls",
            tls_context=None if self.tls == "none" else tls(),
            timeout=self.timeout,
            local_hostname=sender.domain,  # the default is a DNS query that blocks
        )
        try:
            async with asyncio.timeout(self.timeout) as limit:
                await server.connect()
                if self.user:
                    await server.login(self.user, password)
                refusals, _ = await server.sendmail(
                    sender.address, [one.address for one in recipients], message.as_bytes()
                )
            # The server has the message: a farewell that fails must not send it again.
            with suppress(aiosmtplib.SMTPException, OSError, ValueError):
                await server.quit(timeout=_FAREWELL_SECONDS)
        except TimeoutError as error:
            if not limit.expired() and not isinstance(error, aiosmtplib.SMTPException):
                raise
            raise NotifyError("SMTP_TIMEOUT", f"{self.host} took longer than {self.timeout:g} s") from None
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            raise self._translated(error) from None
        finally:
            server.close()  # at once, so that a stopping worker does not wait for a silent server
        return {
            "id": notification.id,
            "accepted": [one.address for one in recipients if one.address not in refusals],
            "refused": {address: answer.code for address, answer in refusals.items()},
        }

    def _translated(self, error: Exception) -> NotifyError:
        """Return the error for the server's refusal, with whether another attempt can help."""
        import aiosmtplib

        if isinstance(error, aiosmtplib.SMTPRecipientsRefused):
            answers = error.recipients
            code = min((answer.code for answer in answers), default=550)
            return NotifyError(
                f"SMTP_{code}",
                f"{self.host} takes none of the recipients: {_reply(answers[0].message if answers else '')}",
                hint="check the addresses",
                permanent=code >= 500,
            )
        if isinstance(error, aiosmtplib.SMTPAuthenticationError):
            return NotifyError(
                "SMTP_AUTH",
                f"{self.host} does not accept the password of {excerpt(self.user)} ({error.code})",
                hint="set the secret of the channel again",
                permanent=error.code >= 500,
            )
        if isinstance(error, aiosmtplib.SMTPResponseException):
            return NotifyError(
                f"SMTP_{error.code}",
                f"{self.host} answered {error.code}: {_reply(error.message)}",
                permanent=error.code >= 500,
            )
        cause = error.__cause__ or error.__context__ or error
        if isinstance(error, ssl.SSLError) or isinstance(cause, ssl.SSLError):
            reason = (
                getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or type(cause).__name__
            )
            return NotifyError(
                "TLS_ERROR",
                f"the certificate or TLS of {self.host} is not accepted: {_reply(str(reason))}",
            )
        if type(error) in (aiosmtplib.SMTPNotSupported, aiosmtplib.SMTPException):
            return NotifyError(
                "SMTP_UNSUPPORTED",
                f"{self.host} does not offer what the channel needs: {_reply(str(error))}",
                hint="check tls= and user= of the channel",
                permanent=True,
            )
        return NotifyError(
            "SMTP_CONNECT", f"{self.host} cannot be reached, or hung up: {type(cause).__name__}"
        )


def composed(
    notification: Notification, sender: Recipient, recipients: Sequence[Recipient], now: float
) -> EmailMessage:
    """Write the message. The same notification has the same Message-ID on every attempt."""
    from email.headerregistry import Address
    from email.message import EmailMessage
    from email.policy import SMTP
    from email.utils import format_datetime

    def mailbox(one: Recipient) -> Address:
        return Address(one.name, addr_spec=one.address)

    message = EmailMessage(policy=SMTP)
    message["Message-ID"] = f"<{notification.id}@{sender.domain}>"
    message["Date"] = format_datetime(datetime.fromtimestamp(now, UTC))
    message["From"] = mailbox(sender)
    message["To"] = [mailbox(one) for one in recipients]
    message["Subject"] = notification.subject
    message["Auto-Submitted"] = "auto-generated"  # so that no vacation reply comes back
    message.set_content(notification.text, cte="quoted-printable")
    return message


def _reply(text: str) -> str:
    """Return the server's reply, short and on one line."""
    return excerpt(" ".join(text.split())[:200])


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
