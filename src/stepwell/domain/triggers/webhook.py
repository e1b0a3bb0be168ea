"""Webhook: how a request from outside proves its sender, and how repeated requests count once.

Three schemes: Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`), a plain HMAC of
the body in a header of the sender's choice, and a bearer token or password. Signatures cover the raw bytes
of the body.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from stepwell.domain.secret import checked_secret_name
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import InvalidInput, InvalidSignature, InvalidTimestamp, excerpt

WEBHOOK = "webhook"
WEBHOOK_KNOWN = ("body", "headers", "query", "id", "name", "at")  # the names that an input may refer to
Scheme = Literal["standard", "hmac", "bearer", "basic", "none"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
Reply = Literal["accepted", "result"]
REPLIES: tuple[Reply, ...] = get_args(Reply)

TOLERANCE = 300.0  # seconds that the sender's clock may differ from ours
SIGNATURES_MAX = 10  # signatures of one request, for senders that rotate their secret
ID_MAX = 200  # characters of a delivery id
WAIT_MAX = 60.0  # seconds for which a request may wait for a result

_PREFIX = "whsec_"
_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\Z")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}\Z")
_TIME = re.compile(r"[0-9]{1,12}\Z")
_ID = re.compile(r"[\x21-\x7e]{1,200}\Z")


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a webhook checks its requests, and what it answers."""

    scheme: Scheme = "standard"
    secret: str = ""  # name of the secret with which the sender signs, or which it sends
    header: str = ""  # for hmac: the header of the signature
    id_header: str = ""  # the header of the delivery id, unless the scheme defines it
    path: str = ""  # how the address begins, for people; an unguessable part follows
    tolerance: float = TOLERANCE
    reply: Reply = "accepted"
    wait: float = 30.0  # seconds for which the answer waits for the run's result
    event: str = ""  # publish an event of this name instead of starting a run
    event_key: str = ""  # the event's key; may contain {{trigger.body.order}}


OpenSecret = Callable[[str, str], Awaitable[str]]  # returns the value of a secret, by workspace and name


class WebhookRequest(NamedTuple):
    """A request as a server received it: header names in lower case, the raw body and its value."""

    headers: Mapping[str, str]
    query: Mapping[str, str]
    data: bytes
    parse: Callable[[], Any]  # parsed once the signature is verified


class WebhookAnswer(NamedTuple):
    """The effect of a request: the run that it started or found, or whether its event is new."""

    run: str
    duplicate: bool
    reply: str
    wait: float


class SignedDelivery(NamedTuple):
    """A verified request."""

    id: str  # the same for a repeated request; '': every request counts


def checked_webhook(settings: WebhookSettings) -> WebhookSettings:
    """Return the settings. InvalidInput names the wrong field."""
    for name, value, words in (
        ("scheme", settings.scheme, SCHEMES),
        ("reply", settings.reply, REPLIES),
    ):
        if value not in words:
            raise InvalidInput(
                f"{name} is {excerpt(value)}", hint=did_you_mean_one_of(str(value), words), field=name
            )
    if (settings.scheme == "none") is bool(settings.secret):
        raise InvalidInput(
            "a webhook without a signature takes no secret"
            if settings.secret
            else f"a webhook with scheme {settings.scheme} needs a secret",
            hint="remove it, or choose another scheme"
            if settings.secret
            else "name one that was set with `stepwell secrets set NAME`",
            field="secret",
        )
    for name, header in (("header", settings.header), ("id_header", settings.id_header)):
        if header and not _HEADER.match(header):
            raise InvalidInput(
                f"{excerpt(header)} cannot be the name of a header",
                hint="use letters, digits and -, for example X-Hub-Signature-256",
                field=name,
            )
    if settings.secret:
        checked_secret_name(settings.secret, "secret")
    if settings.path and not _PATH.match(settings.path):
        raise InvalidInput(
            f"the path is {excerpt(settings.path)}",
            hint="use 1 to 100 letters, digits, - and _, for example refunds",
            field="path",
        )
    if (settings.scheme == "hmac") is not bool(settings.header):
        raise InvalidInput(
            "scheme hmac needs the header that carries the signature"
            if settings.scheme == "hmac"
            else f"scheme {settings.scheme} takes no header",
            hint='for example header="X-Hub-Signature-256"',
            field="header",
        )
    if not 1 <= settings.tolerance <= 86_400:
        raise InvalidInput(
            f"tolerance is {settings.tolerance:g} s", hint="1 second to 1 day", field="tolerance"
        )
    if not 1 <= settings.wait <= WAIT_MAX:
        raise InvalidInput(f"wait is {settings.wait:g} s", hint=f"1 to {WAIT_MAX:g} s", field="wait")
    if settings.event_key and not settings.event:
        raise InvalidInput("an event key needs an event", hint="pass event=", field="event_key")
    if settings.event and settings.reply == "result":
        raise InvalidInput("an event has no result", hint='use reply="accepted"', field="reply")
    return settings


def verified(
    settings: WebhookSettings, secret: str, headers: Mapping[str, str], body: bytes, now: float
) -> SignedDelivery:
    """Return the delivery; InvalidSignature if it may not start anything. Header names are lower case."""
    # An HMAC covers only the body: an attacker must not replay it under a new id.
    by_default = "" if settings.scheme == "hmac" else "idempotency-key"
    id = headers.get(settings.id_header.lower() or by_default, "")
    if settings.scheme == "standard":
        id = _check_standard(settings, secret, headers, body, now)
    elif settings.scheme == "hmac":
        signature = _check_hmac(settings, secret, headers, body)
        id = id or f"sha256={signature.hex()}"
    elif settings.scheme == "bearer":
        _check_authorization("bearer", secret, headers)
    elif settings.scheme == "basic":
        password = base64.b64encode(secret.encode()).decode()  # the secret is "user:password"
        _check_authorization("basic", password, headers)
    if id and not _ID.match(id):
        raise InvalidSignature(f"the delivery id is not 1 to {ID_MAX} printable characters")
    return SignedDelivery(id)


def _check_standard(
    settings: WebhookSettings, secret: str, headers: Mapping[str, str], body: bytes, now: float
) -> str:
    id, time = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not _ID.match(id):
        raise InvalidSignature("the request has no webhook-id")
    if not _TIME.match(time) or abs(now - int(time)) > settings.tolerance:
        raise InvalidTimestamp("webhook-timestamp is missing, or too far from the current time")
    given = headers.get("webhook-signature", "").split(" ", SIGNATURES_MAX)
    if len(given) > SIGNATURES_MAX:
        raise InvalidSignature(f"the request has more than {SIGNATURES_MAX} signatures")
    expected = hmac.digest(_key(secret), f"{id}.{time}.".encode() + body, "sha256")
    matches = [_same(text.removeprefix("v1,"), expected) for text in given if text.startswith("v1,")]
    if not any(matches):
        raise InvalidSignature("no signature of the request is right")
    return id


def _check_hmac(settings: WebhookSettings, secret: str, headers: Mapping[str, str], body: bytes) -> bytes:
    given = headers.get(settings.header.lower(), "").strip()
    expected = hmac.digest(secret.encode(), body, "sha256")
    if not _same(given.removeprefix("sha256="), expected):
        raise InvalidSignature(f"the signature in {settings.header} is missing or wrong")
    return expected


def _check_authorization(wanted: str, secret: str, headers: Mapping[str, str]) -> None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    digests = [hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in (token, secret)]
    if scheme.lower() != wanted or not hmac.compare_digest(*digests):
        raise InvalidSignature(f"the {wanted} credential is missing or wrong")


def _key(secret: str) -> bytes:
    """Return the bytes of a secret. Secrets of Standard Webhooks are `whsec_` and base64."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return secret.encode()


def _same(text: str, expected: bytes) -> bool:
    """Compare a signature in hexadecimal or base64, in a time that does not depend on the difference."""
    given = text.encode("utf-8", "replace")
    as_hex = hmac.compare_digest(given.lower(), expected.hex().encode())
    as_base64 = hmac.compare_digest(given, base64.b64encode(expected))
    return as_hex or as_base64


def signature(secret: str, id: str, time: int, body: bytes) -> str:
    """Sign a request as Standard Webhooks does; return the value of `webhook-signature`."""
    digest = hmac.digest(_key(secret), f"{id}.{time}.".encode() + body, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"
