"""A mail server on loopback that keeps what it gets, and refuses what a test tells it to refuse."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session


@dataclass
class Mail:
    sender: str
    recipients: list[str]
    data: bytes
    user: str

    @property
    def message(self) -> EmailMessage:
        return message_from_bytes(self.data, policy=policy.default)

    @property
    def id(self) -> str:
        return str(self.message["Message-ID"])

    @property
    def text(self) -> str:
        return str(self.message.get_content())


@dataclass
class MailServer:
    """`answer` sees each message before it counts, and says what the server answers.

    The one numbered `silent` counts, but is answered only when `spoken` is set.
    """

    answer: Callable[[Mail], str] = lambda mail: "250 OK"
    refused: dict[str, str] = field(default_factory=dict)  # by address: the answer to RCPT
    passwords: dict[str, str] = field(default_factory=dict)
    silent: int = 0
    spoken: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    mails: list[Mail] = field(default_factory=list)
    attempts: list[Mail] = field(default_factory=list)

    def url(self, more: str = "", user: str = "") -> str:
        at = f"{user}@" if user else ""
        return f"smtp://{at}127.0.0.1:{self.port}?from=Stepwell%20<bot@example.com>&tls=none{more}"

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        data = envelope.content
        assert isinstance(data, bytes)
        user: Any = session.auth_data
        recipients = [str(to) for to in envelope.rcpt_tos]
        mail = Mail(envelope.mail_from or "", recipients, data, user.decode() if user else "")
        self.attempts.append(mail)
        answer = self.answer(mail)
        if answer.startswith("2"):
            self.mails.append(mail)
        if len(self.attempts) == self.silent:
            await self.spoken.wait()
        return answer

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        user, password = data.login.decode(), data.password.decode()
        right = self.passwords.get(user) == password
        return AuthResult(success=right, handled=False, auth_data=user.encode())


@asynccontextmanager
async def mail_server(
    server: MailServer | None = None, *, tls: ssl.SSLContext | None = None, smtps: bool = False
) -> AsyncIterator[MailServer]:
    serving = server or MailServer()
    secured: dict[str, Any] = {} if tls is None or smtps else {"tls_context": tls, "require_starttls": True}
    if serving.passwords:
        secured |= {"authenticator": serving.authenticate, "auth_require_tls": False}

    def protocol() -> SMTP:
        return SMTP(serving, loop=asyncio.get_running_loop(), enable_SMTPUTF8=False, **secured)

    listener = await asyncio.get_running_loop().create_server(
        protocol, "127.0.0.1", serving.port, ssl=tls if smtps else None
    )
    serving.port = listener.sockets[0].getsockname()[1]
    try:
        yield serving
    finally:
        listener.close()
