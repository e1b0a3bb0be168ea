"""Mail through a real server: what arrives, what is refused, and what is worth another attempt."""

from __future__ import annotations

import datetime
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from stepwell.channels.channels import Channels, channel_of
from stepwell.channels.errors import NotifyError
from stepwell.channels.mail import MailChannel
from stepwell.channels.notification import Notification, checked_recipient, id_of
from stepwell.domain.notifications import SEND_SECONDS_MAX, TAKEN_SECONDS
from stepwell.errors import SettingsInvalid
from tests.channels.mail_server import MailServer, mail_server

HELLO = Notification(
    id=id_of("run/0/notify#1"), subject="Grüße", text="Order 42\n.\nis late", to=("a@x.org",)
)


def channels_of(
    channel: MailChannel | str, secrets: dict[str, str] | None = None, tls: Callable[[], Any] | None = None
) -> Channels:
    async def secret(name: str) -> str:
        return (secrets or {})[name]

    def no_client() -> Any:
        raise AssertionError("mail needs no HTTP client")

    more = {} if tls is None else {"tls": tls}
    return Channels({"ops": channel}, client=no_client, secret=secret, now=time.time, **more)


async def failure(channels: Channels, notification: Notification = HELLO) -> NotifyError:
    with pytest.raises(NotifyError) as caught:
        await channels.send("ops", notification)
    return caught.value


@pytest.mark.req("N26")
async def test_a_mail_arrives_as_it_was_written() -> None:
    async with mail_server() as server:
        sent = await channels_of(server.url()).send(
            "ops", Notification(id=HELLO.id, subject=HELLO.subject, text=HELLO.text, to=("Ana, B <a@x.org>",))
        )

    [mail] = server.mails
    assert sent == {"id": HELLO.id, "accepted": ["a@x.org"], "refused": {}}
    assert (mail.sender, mail.recipients) == ("bot@example.com", ["a@x.org"])
    assert mail.message["Subject"] == "Grüße"
    assert mail.message["From"] == "Stepwell <bot@example.com>"
    assert mail.message["To"] == '"Ana, B" <a@x.org>'
    assert mail.message["Message-ID"] == f"<{HELLO.id}@example.com>"
    assert mail.message["Auto-Submitted"] == "auto-generated"
    assert mail.text.splitlines() == ["Order 42", ".", "is late"]


async def test_a_channel_has_recipients_of_its_own() -> None:
    async with mail_server() as server:
        channels = channels_of(server.url("&to=a@example.com,B <b@example.com>"))
        await channels.send("ops", Notification(id="msg_1", text="hello"))

    assert server.mails[0].recipients == ["a@example.com", "b@example.com"]


async def test_recipients_that_a_server_refuses_are_named() -> None:
    async with mail_server(MailServer(refused={"b@x.org": "550 no such user"})) as server:
        channels = channels_of(server.url())
        sent = await channels.send("ops", Notification(id="msg_1", text="hello", to=("a@x.org", "b@x.org")))
        error = await failure(channels, Notification(id="msg_2", text="hello", to=("b@x.org",)))

    assert (sent["accepted"], sent["refused"]) == (["a@x.org"], {"b@x.org": 550})
    assert (error.code, error.permanent) == ("SMTP_550", True)


@pytest.mark.parametrize(
    ("answer", "code", "permanent"),
    [("451 try later", "SMTP_451", False), ("554 no", "SMTP_554", True)],
)
async def test_an_answer_says_whether_another_attempt_can_help(
    answer: str, code: str, permanent: bool
) -> None:
    async with mail_server(MailServer(answer=lambda mail: answer)) as server:
        error = await failure(channels_of(server.url()))

    assert (error.code, error.permanent, server.mails) == (code, permanent, [])


async def test_a_server_that_is_not_there_may_come_back() -> None:
    async with mail_server() as server:
        pass

    error = await failure(channels_of(server.url()))

    assert (error.code, error.permanent) == ("SMTP_CONNECT", False)


@pytest.mark.req("X8")
async def test_a_password_signs_in_and_is_in_no_error() -> None:
    async with mail_server(MailServer(passwords={"bot": "right-password"})) as server:
        channel = server.url("&secret=smtp", user="bot")
        await channels_of(channel, {"smtp": "right-password"}).send("ops", HELLO)
        error = await failure(channels_of(channel, {"smtp": "wrong-password"}))

    assert [mail.user for mail in server.mails] == ["bot"]
    assert (error.code, error.permanent) == ("SMTP_AUTH", True)
    assert "wrong-password" not in f"{error} {error.hint} {error.__cause__} {error.__context__}"


@pytest.fixture
def certificates(tmp_path: Path) -> tuple[ssl.SSLContext, Callable[[], ssl.SSLContext]]:
    """A context for a server at 127.0.0.1, and one for a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mail")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(__import__("ipaddress").ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, secret = tmp_path / "mail.pem", tmp_path / "mail.key"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem, secret)
    return server, lambda: ssl.create_default_context(cafile=str(pem))


@pytest.mark.parametrize("smtps", [False, True])
async def test_tls_is_required_and_its_certificate_checked(
    certificates: tuple[ssl.SSLContext, Callable[[], ssl.SSLContext]], smtps: bool
) -> None:
    context, trusting = certificates
    async with mail_server(tls=context, smtps=smtps) as server:
        channel = MailChannel(
            host="127.0.0.1", port=server.port, tls="tls" if smtps else "starttls", sender="bot@example.com"
        )
        error = await failure(channels_of(channel))
        await channels_of(channel, tls=trusting).send("ops", HELLO)

    assert error.code == "TLS_ERROR"
    assert len(server.mails) == 1


async def test_a_server_without_tls_gets_nothing() -> None:
    async with mail_server() as server:
        channel = MailChannel(host="127.0.0.1", port=server.port, sender="bot@example.com")
        error = await failure(channels_of(channel))

    assert error.permanent
    assert server.attempts == []


@pytest.mark.req("N26")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"subject": "a\r\nBcc: victim@x.org"}, "HEADER_INVALID"),  # BI-T10
        ({"subject": "a\nb"}, "HEADER_INVALID"),
        ({"subject": "a\u2028b"}, "HEADER_INVALID"),
        ({"to": ("a@x.org\r\nRCPT TO:<b@x.org>",)}, "HEADER_INVALID"),
        ({"to": ("a@x.org, b@x.org",)}, "RECIPIENT_INVALID"),
        ({"to": ("a@x.org b@x.org",)}, "RECIPIENT_INVALID"),
        ({"to": ("A <a@x.org> <b@x.org>",)}, "RECIPIENT_INVALID"),
        ({"to": ("<a@x.org>\u0000",)}, "HEADER_INVALID"),
        ({"to": ("ana",)}, "RECIPIENT_INVALID"),
        ({"to": ("",)}, "RECIPIENT_INVALID"),
        ({"to": ()}, "RECIPIENT_MISSING"),
        ({"to": tuple(f"a{i}@x.org" for i in range(51))}, "RECIPIENTS_MAX"),
        ({"subject": "x" * 501}, "NOTIFICATION_TOO_LARGE"),
        ({"text": "x" * 262_145}, "NOTIFICATION_TOO_LARGE"),
        ({"to": ("a@elsewhere.org",)}, "RECIPIENT_FORBIDDEN"),
    ],
)
async def test_what_may_not_be_sent_makes_no_connection(fields: dict[str, Any], code: str) -> None:
    given = {"to": ("a@x.org",), "subject": "s", "text": "t", **fields}
    async with mail_server() as server:
        error = await failure(channels_of(server.url("&domains=x.org")), Notification(id="msg_1", **given))

    assert (error.code, error.permanent) == (code, True)
    assert server.attempts == []


@pytest.mark.parametrize(
    "url",
    [
        "smtp://bot:hunter2hunter2@mail.example.com?from=a@example.com&secret=x",
        "smtp://mail.example.com",
        "smtp://mail.example.com?from=a@example.com&secert=x",
        "smtp://mail.example.com?from=a@example.com&tls=maybe",
        "smtp://bot@mail.example.com?from=a@example.com",
        "smtp://bot@mail.example.com?from=a@example.com&secret=x&tls=none",
        "smtp://mail.example.com?from=nobody",
        "smtp://mail.example.com:99999?from=a@example.com",
        "ftp://mail.example.com?from=a@example.com",
        "https://example.com/in",
        "https:///in#secret=x",
    ],
)
def test_a_channel_that_cannot_work_is_refused_when_it_is_read(url: str) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        channel_of("ops", url)

    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


def test_no_mail_may_take_as_long_as_a_process_has_for_it() -> None:
    MailChannel(host="mail.example.com", sender="a@example.com", timeout=SEND_SECONDS_MAX)
    with pytest.raises(SettingsInvalid, match="timeout=241"):
        MailChannel(host="mail.example.com", sender="a@example.com", timeout=241.0)

    assert SEND_SECONDS_MAX < TAKEN_SECONDS


def test_a_display_name_is_kept_apart_from_the_address() -> None:
    assert checked_recipient('"Ana B" <ana@example.com>') == ("Ana B", "ana@example.com")
    assert checked_recipient("ana@example.com") == ("", "ana@example.com")
