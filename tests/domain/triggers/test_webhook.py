"""Signatures of webhooks: what is accepted, and what is not."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest

from stepwell.domain.triggers.webhook import WebhookSettings, checked_webhook, signature, verified
from stepwell.errors import InvalidInput, InvalidSignature

NOW = 1_800_000_000
SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()
BODY = b'{"order": 7, "paid": true}'
STANDARD = WebhookSettings(secret="shop")
HMAC = WebhookSettings(scheme="hmac", secret="github", header="X-Hub-Signature-256")


def signed(body: bytes = BODY, *, id: str = "msg_1", at: int = NOW, secret: str = SECRET) -> dict[str, str]:
    return {
        "webhook-id": id,
        "webhook-timestamp": str(at),
        "webhook-signature": signature(secret, id, at, body),
    }


def hub(body: bytes, secret: str = "github-secret") -> dict[str, str]:
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"x-hub-signature-256": f"sha256={digest}"}


@pytest.mark.req("T2", "X6")
@pytest.mark.parametrize("at", [NOW, NOW - 299, NOW + 299])
def test_a_signed_request_is_accepted_within_the_tolerance(at: int) -> None:
    assert verified(STANDARD, SECRET, signed(at=at), BODY, NOW).id == "msg_1"


@pytest.mark.req("T2", "X6")
def test_one_right_signature_among_several_is_enough() -> None:
    headers = signed()
    headers["webhook-signature"] = f"v2,x v1,{'A' * 44} {headers['webhook-signature']}"

    assert verified(STANDARD, SECRET, headers, BODY, NOW).id == "msg_1"


@pytest.mark.req("T2", "X6", "BI-W01", "BI-W02", "BI-W03", "BI-W05", "BI-W06")
@pytest.mark.parametrize(
    ("changes", "body", "code"),
    [
        ({"webhook-signature": ""}, BODY, "SIGNATURE"),
        ({"webhook-signature": "v1,"}, BODY, "SIGNATURE"),
        ({"webhook-signature": "v1,größe"}, BODY, "SIGNATURE"),
        ({"webhook-signature": f"v1,{'A' * 44} v1,{'B' * 44}"}, BODY, "SIGNATURE"),
        ({"webhook-signature": " ".join(["v1,x"] * 1000)}, BODY, "SIGNATURE"),
        ({"webhook-id": ""}, BODY, "SIGNATURE"),
        ({"webhook-id": "other"}, BODY, "SIGNATURE"),
        ({"webhook-id": "x" * 500}, BODY, "SIGNATURE"),
        ({}, BODY + b" ", "SIGNATURE"),
        ({}, b'{"paid": true, "order": 7}', "SIGNATURE"),
        (signed(secret="whsec_" + base64.b64encode(b"o" * 24).decode()), BODY, "SIGNATURE"),
        ({"webhook-timestamp": ""}, BODY, "TIMESTAMP"),
        ({"webhook-timestamp": "-1"}, BODY, "TIMESTAMP"),
        ({"webhook-timestamp": "1e9"}, BODY, "TIMESTAMP"),
        ({"webhook-timestamp": "9" * 20}, BODY, "TIMESTAMP"),
        (signed(at=NOW - 301), BODY, "TIMESTAMP"),
        (signed(at=NOW + 301), BODY, "TIMESTAMP"),
        ({"webhook-timestamp": str(NOW + 1)}, BODY, "SIGNATURE"),
    ],
    ids=str,
)
def test_any_other_request_is_refused(changes: dict[str, str], body: bytes, code: str) -> None:
    with pytest.raises(InvalidSignature) as refusal:
        verified(STANDARD, SECRET, signed() | changes, body, NOW)

    assert refusal.value.code == code
    assert SECRET not in str(refusal.value)


@pytest.mark.req("T2", "BI-W04")
def test_an_hmac_of_the_body_identifies_a_delivery_whose_id_nobody_signed() -> None:
    one, other = (verified(HMAC, "github-secret", hub(body), body, NOW) for body in (b"1", b"2"))
    named = WebhookSettings(scheme="hmac", secret="g", header="X-Hub-Signature-256", id_header="X-Delivery")

    assert one.id != other.id
    assert verified(named, "github-secret", hub(b"1") | {"x-delivery": "d-7"}, b"1", NOW).id == "d-7"
    assert verified(HMAC, "github-secret", hub(b"1") | {"idempotency-key": "k-7"}, b"1", NOW).id == one.id
    for headers in ({}, hub(b"2"), hub(b"1", "other-secret"), {"x-hub-signature-256": "sha256="}):
        with pytest.raises(InvalidSignature):
            verified(HMAC, "github-secret", headers, b"1", NOW)


@pytest.mark.req("T2")
def test_a_bearer_token_is_compared_as_a_whole() -> None:
    settings = WebhookSettings(scheme="bearer", secret="token")
    assert verified(settings, "12345678", {"authorization": "Bearer 12345678"}, b"", NOW).id == ""
    for text in ("", "Bearer", "Bearer 1234567", "Bearer 123456789", "Basic 12345678", "12345678"):
        with pytest.raises(InvalidSignature):
            verified(settings, "12345678", {"authorization": text}, b"", NOW)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"scheme": "standrad", "secret": "x"}, "scheme"),
        ({}, "secret"),
        ({"scheme": "none", "secret": "x"}, "secret"),
        ({"scheme": "hmac", "secret": "x"}, "header"),
        ({"secret": "x", "header": "X-Signature"}, "header"),
        ({"scheme": "hmac", "secret": "x", "header": "X Signature"}, "header"),
        ({"secret": "x", "id_header": "a\r\nb"}, "id_header"),
        ({"secret": "x", "tolerance": 0.5}, "tolerance"),
        ({"secret": "x", "wait": 61.0}, "wait"),
        ({"secret": "x", "reply": "html"}, "reply"),
        ({"secret": "x", "event_key": "k"}, "event_key"),
        ({"secret": "x", "event": "paid", "reply": "result"}, "reply"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        checked_webhook(WebhookSettings(**options))

    assert refusal.value.context["field"] == field
