"""Deliveries: requests of other services to webhooks. They need no key; each webhook checks its own."""

from __future__ import annotations

import logging
import re
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Path
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from stepwell.app import Engine
from stepwell.client.run_webhooks import AddressUsed
from stepwell.domain.status import Status
from stepwell.domain.triggers.webhook import SIGNATURES_MAX, WebhookRequest
from stepwell.errors import (
    InvalidInput,
    InvalidSignature,
    NotEndedYet,
    RunError,
    SecretsKeyMissing,
    SecretUnreadable,
    TriggerNotFound,
    excerpt,
)
from stepwell.server.access import address_of
from stepwell.server.credentials import FailureCount
from stepwell.server.json_body import BODY_MAX, parse, read_body
from stepwell.server.refusal import Refusal

_FORM_MAX = 1000  # fields
_TOKEN = re.compile(r"[A-Za-z0-9._-]+")
_log = logging.getLogger("stepwell.server")

Workspace = Annotated[str, Path(max_length=200, description="workspace of the webhook")]
Token = Annotated[str, Path(max_length=300, description="the part of its path that cannot be guessed")]


class DeliveryAnswer(BaseModel):
    """The effect of a delivery."""

    run: str = Field(description="the run that a delivery with this id started; empty: none")
    duplicate: bool = Field(description="a delivery with this id came before")


async def receive_delivery(request: Request, workspace: Workspace, token: Token) -> Response:
    """Start the run of a webhook, publish its event, or answer a waiting run. A delivery id counts once."""
    failures: FailureCount = request.app.state.delivery_failures
    address = address_of(request)
    failures.check(address)
    if request.headers.get("webhook-signature", "").count(" ") >= SIGNATURES_MAX:
        failures.count(address)
        raise Refusal(
            400, "SIGNATURES_MAX", f"the request has more than {SIGNATURES_MAX} signatures", hint="send one"
        )
    data = await read_body(request, BODY_MAX)
    engine: Engine = request.app.state.engine
    try:
        view = engine.within(workspace) if _TOKEN.fullmatch(token) else None
    except InvalidInput:
        view = None
    if view is None:  # no webhook can be here, so no database is asked
        failures.count(address)
        raise _unknown()
    delivery = WebhookRequest(
        {name: value for name, value in request.headers.items() if name != "cookie"},
        dict(request.query_params),
        data,
        lambda: _value(request, data),
    )
    try:
        answer = await view.webhooks.deliver(token, delivery, engine.secret_opener.value)
    except AddressUsed as error:
        raise Refusal(410, "WEBHOOK_GONE", error.message, hint="ask the run for a new address") from None
    except TriggerNotFound:
        failures.count(address)
        raise _unknown() from None
    except InvalidSignature:
        failures.count(address)
        raise
    except (SecretUnreadable, SecretsKeyMissing) as error:
        _log.error("a webhook of workspace %s cannot check its requests: %s", workspace, error)
        raise Refusal(503, "WEBHOOK_UNAVAILABLE", "this webhook cannot check requests now") from None
    failures.succeeded(address)
    shown = DeliveryAnswer(run=answer.run, duplicate=answer.duplicate)
    if answer.reply == "result" and answer.run:
        return await _result(view, shown, answer.wait)
    return JSONResponse(shown.model_dump(), status_code=200 if answer.duplicate else 202)


async def _result(engine: Engine, shown: DeliveryAnswer, seconds: float) -> Response:
    """Answer with the run's result, or with 202 if it takes longer than the sender waits."""
    run = engine.handle(shown.run)
    try:
        result = await run.result(seconds)
    except NotEndedYet:
        return JSONResponse(shown.model_dump(), status_code=202)
    except RunError:  # the delivery was taken, and why its run failed is not for strangers
        return JSONResponse({**shown.model_dump(), "status": await run.status()})
    return JSONResponse({**shown.model_dump(), "status": Status.COMPLETED, "result": result})


def _value(request: Request, data: bytes) -> Any:
    """Return the body as a value: JSON, the fields of a form, or text. Uploads are not supported."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not data:
        return None
    if kind == "application/json" or kind.endswith("+json"):
        return parse(data)
    if kind == "application/x-www-form-urlencoded":
        if data.count(b"&") >= _FORM_MAX:
            raise Refusal(400, "FORM_TOO_MANY", f"the form has more than {_FORM_MAX:,} fields")
        try:
            pairs = parse_qsl(data.decode(), keep_blank_values=True, strict_parsing=True)
        except ValueError:
            raise Refusal(400, "FORM_INVALID", "the form is not valid") from None
        return dict(pairs)
    if kind in ("", "text/plain"):
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise Refusal(400, "ENCODING", "the body is not UTF-8") from None
    raise Refusal(
        415,
        "CONTENT_TYPE",
        f"a webhook does not accept {excerpt(kind)}",
        hint="send JSON, a URL-encoded form or text",
    )


def _unknown() -> Refusal:
    return Refusal(404, "WEBHOOK_NOT_FOUND", "there is no webhook at this address")
