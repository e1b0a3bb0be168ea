"""Signed webhooks, received by a listener on loopback."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from stepwell.channels.channels import Channels
from stepwell.channels.errors import NotifyError
from stepwell.channels.notification import Notification
from stepwell.domain.triggers.webhook import WebhookSettings, verified
from stepwell.errors import SecretUnreadable
from tests.outbound.listener import Answer, Listener, answered, client_of, listening

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HELLO = Notification(id="msg_1", data={"order": 42})


@asynccontextmanager
async def hooked(answer: Answer, **options: Any) -> AsyncIterator[tuple[Listener, Channels]]:
    async def secret(name: str) -> str:
        if name != "hook":
            raise SecretUnreadable(f"there is no secret {name}")
        return SECRET

    async with listening(answer) as listener, client_of(listener, **options) as client:
        url = f"http://127.0.0.1:{listener.port}/in?a=b"
        named = {"ops": f"{url}#secret=hook", "wrong": f"{url}#secret=other"}
        yield listener, Channels(named, client=lambda: client, secret=secret, now=time.time)


def headers_of(request: bytes) -> dict[str, str]:
    lines = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


@pytest.mark.req("N26", "X6")
async def test_a_webhook_is_signed_so_that_a_receiver_can_check_it() -> None:
    async with hooked(answered(b"", "202 Accepted")) as (listener, channels):
        sent = await channels.send("ops", HELLO)

    head, _, body = listener.requests[0].partition(b"\r\n\r\n")
    headers = headers_of(listener.requests[0])
    assert sent == {"id": "msg_1", "status": 202}
    assert head.startswith(b"POST /in?a=b HTTP/1.1")
    assert msgspec.json.decode(body) == {"type": "notification", "id": "msg_1", "data": {"order": 42}}
    settings = WebhookSettings(secret="hook")
    now = float(headers["webhook-timestamp"])
    assert verified(settings, SECRET, headers, body, now).id == "msg_1"
    assert SECRET.encode() not in listener.requests[0]


async def test_without_data_a_webhook_gets_the_subject_and_the_text() -> None:
    async with hooked(answered()) as (listener, channels):
        await channels.send("ops", Notification(id="msg_1", subject="Late", text="Order 42", to=("a@x.org",)))

    assert msgspec.json.decode(listener.requests[0].partition(b"\r\n\r\n")[2])["data"] == {
        "subject": "Late",
        "text": "Order 42",
        "to": ["a@x.org"],
    }


@pytest.mark.req("N26")
@pytest.mark.parametrize(
    ("answer", "code", "permanent", "after"),
    [
        (answered(b"", "500 Broken"), "HTTP_500", False, None),
        (answered(b"", "429 Slow", "Retry-After: 7"), "HTTP_429", False, 7.0),
        (answered(b"", "410 Gone"), "HTTP_410", True, None),
        (answered(b"", "404 Not Found"), "HTTP_404", True, None),
        (answered(b"", "302 Found", "Location: /elsewhere"), "HTTP_302", True, None),
        (b"not http at all\r\n\r\n", "HTTP_PROTOCOL", False, None),
    ],
)
async def test_an_answer_says_whether_another_attempt_can_help(
    answer: bytes, code: str, permanent: bool, after: float | None
) -> None:
    async with hooked(answer) as (listener, channels):
        with pytest.raises(NotifyError) as caught:
            await channels.send("ops", HELLO)

    assert (caught.value.code, caught.value.permanent, caught.value.after) == (code, permanent, after)
    assert len(listener.requests) == 1  # a redirect is not followed


@pytest.mark.req("X1")
async def test_a_private_address_is_called_only_if_an_operator_allows_it() -> None:
    async with hooked(answered(), allow=()) as (listener, channels):
        with pytest.raises(NotifyError) as caught:
            await channels.send("ops", HELLO)

    assert caught.value.permanent
    assert re.match(r"[A-Z_]+\Z", caught.value.code)
    assert listener.connections == 0


async def test_an_unknown_channel_or_secret_is_told_without_a_connection() -> None:
    async with hooked(answered()) as (listener, channels):
        with pytest.raises(NotifyError) as unknown:
            await channels.send("opps", HELLO)
        with pytest.raises(NotifyError) as unsigned:
            await channels.send("wrong", HELLO)

    assert (unknown.value.code, unknown.value.hint) == ("NOTIFY_CHANNEL", "did you mean 'ops'?")
    assert unsigned.value.code == "SECRET_UNREADABLE"
    assert listener.connections == 0
