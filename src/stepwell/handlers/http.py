"""The step of `http` nodes: a call by the engine's client, its answer as JSON, its status as an outcome."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from stepwell.authoring.graphs.errors import NodeConfigError, NodeError
from stepwell.authoring.graphs.nodes.http import NAME
from stepwell.authoring.graphs.nodes.steps import providing_step
from stepwell.domain.codec import PLAIN
from stepwell.domain.hops import hops_here
from stepwell.domain.program import StepContext
from stepwell.domain.steps import StepSpec
from stepwell.errors import RetryAfter, SecretsKeyMissing, SecretUnreadable, excerpt
from stepwell.outbound.errors import OutboundError, OutboundRefused
from stepwell.outbound.request import OutboundRequest, OutboundResponse
from stepwell.secrets.opener import OpenedSecret

if TYPE_CHECKING:
    from stepwell.outbound.client import OutboundClient  # loads TLS and HTTP libraries: at the first call

_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json\Z")
_TEXT = re.compile(r"text/|application/(?:xml|javascript|x-www-form-urlencoded|[\w.-]+\+xml)\Z")


class StatusError(NodeError):
    """The service answered with a status that is not a success."""


class BusyError(StatusError, RetryAfter):
    """A StatusError whose service said when to try again."""

    def __init__(self, seconds: float, code: str, message: str, **context: Any) -> None:
        StatusError.__init__(self, code, message, **context)
        self.seconds = seconds


def http_step(
    client: Callable[[], OutboundClient],
    secret: Callable[[str, str], Awaitable[OpenedSecret]],
    now: Callable[[], float] = time.time,
) -> StepSpec:
    """Return the step that makes the calls of `http` nodes with this client and a run's secrets."""

    async def call(step: StepContext, config: dict[str, Any]) -> Any:
        request = _request(step, config)
        try:
            if config.get("credential"):
                opened = await secret(step.run_id, config["credential"])
                request = replace(request, credential=opened.credential)
            answer = await client().send(request)
        except (SecretUnreadable, SecretsKeyMissing) as error:
            raise NodeConfigError(error.message, code=error.code, hint=error.hint) from None
        except OutboundRefused as error:
            raise NodeConfigError(error.message, code=error.code, hint=error.hint) from None
        except OutboundError as error:
            failed = NodeError(error.code, error.message, hint=error.hint)
            failed.permanent = error.permanent
            raise failed from None
        _check_status(answer, config, now())
        return {"status": answer.status, "headers": answer.headers, **_decoded(answer)}

    return providing_step(NAME, call)


def _request(step: StepContext, config: dict[str, Any]) -> OutboundRequest:
    headers: dict[str, str] = dict(config["headers"])
    names = {name.lower() for name in headers}
    body = config["body"]
    data = None
    if body is not None:
        data = body.encode() if isinstance(body, str) else PLAIN.encode(body)
        if "content-type" not in names:
            kind = "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
            headers["content-type"] = kind
    if config["method"] not in ("GET", "HEAD") and "idempotency-key" not in names:
        headers["idempotency-key"] = step.key  # the same on every attempt
    return OutboundRequest(
        method=config["method"],
        url=config["url"],
        headers=headers,
        query=config["query"],
        body=data,
        timeout=config["timeout"],
        response_bytes_max=config["maxResponseBytes"],
        depth=hops_here.get(),
    )


def _check_status(answer: OutboundResponse, config: dict[str, Any], now: float) -> None:
    status = str(answer.status)
    if any(status == each or each == f"{status[0]}xx" for each in config["okStatus"]):
        return
    code, message = f"HTTP_{status}", f"the service answered {status}: {_beginning(answer)}"
    context: dict[str, Any] = {"status": answer.status, "url": answer.url}
    if answer.is_temporary:
        seconds = answer.retry_after(now)
        if seconds is not None:
            raise BusyError(min(seconds, config["longestDelay"]), code, message, **context)
        raise StatusError(code, message, **context)
    failed = StatusError(
        code, message, hint="check the request; okStatus lists the statuses that count as success", **context
    )
    failed.permanent = True
    raise failed


def _decoded(answer: OutboundResponse) -> dict[str, Any]:
    """Return the body as JSON or text, or as base64 if it is neither."""
    kind, _, parameters = answer.headers.get("content-type", "").partition(";")
    kind, body = kind.strip().lower(), answer.body
    if not body:
        return {"body": None}
    if _JSON.match(kind):
        try:
            return {"body": msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))}
        except (msgspec.DecodeError, RecursionError):
            raise NodeError(
                "RESPONSE_DECODE",
                f"the answer says that it is JSON, and is not: {_beginning(answer)}",
            ) from None
    if _TEXT.match(kind):
        named = re.search(r"charset=[\"']?([\w.:-]+)", parameters, re.IGNORECASE)
        try:
            return {"body": body.decode(named[1] if named else "utf-8")}
        except (LookupError, UnicodeDecodeError):
            return {"body": body.decode("utf-8", "replace")}
    try:
        if b"\0" not in body:
            return {"body": body.decode()}
    except UnicodeDecodeError:
        pass
    return {"bodyBase64": base64.b64encode(body).decode()}


def _beginning(answer: OutboundResponse) -> str:
    return excerpt(answer.body[:120].decode("utf-8", "backslashreplace"))
