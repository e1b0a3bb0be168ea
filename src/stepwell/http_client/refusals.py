"""Refusals: turns the problem+json of a server into the error that the verb raises in Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import msgspec

from stepwell.errors import (
    InvalidDefinition,
    PayloadTooLarge,
    RateLimited,
    RequestRefused,
    ServerFault,
    StepwellError,
)

_PROBLEM = "application/problem+json"
_FIELDS = {"code", "message", "hint", "field", "context", "request_id"}
_GATEWAY = (502, 503, 504)  # a proxy answers in place of the server
_PASSING = ("STORE_UNAVAILABLE", "OUTCOME_UNKNOWN", "DRAINING")  # worth another attempt
_TOO_LARGE = ("BODY_TOO_LARGE", "PAYLOAD_TOO_LARGE")


def is_passing(response: httpx2.Response) -> bool:
    """Return whether another attempt may succeed in a moment."""
    code = _body(response).get("code")
    return response.status_code in _GATEWAY and (code is None or code in _PASSING)


def error_of(response: httpx2.Response) -> StepwellError:
    """Return the error with the code, message, hint and context that the server sent."""
    body = _body(response)
    if not body:
        return ServerFault(
            f"{response.request.url} answered {response.status_code} {response.reason_phrase}",
            hint="check that the address is that of a Stepwell server",
        )
    code, message, hint = str(body["code"]), str(body["message"]), str(body["hint"])
    context = {str(name): value for name, value in body["context"].items()}
    if body["field"]:
        context["field"] = body["field"]
    if code == RateLimited.code:
        wait = float(response.headers.get("retry-after", "1"))
        return RateLimited(message, hint=hint, retry_after=wait, **context)
    kind = PayloadTooLarge if code in _TOO_LARGE else _classes().get(code)
    if kind is not None:
        error = kind(message, hint=hint)
        error.context = context
        return error
    if response.status_code >= 500:
        return ServerFault(message, hint=hint, request=body["request_id"], **context)
    return RequestRefused(message, hint=hint, refusal=code, **context)


def _body(response: httpx2.Response) -> dict[str, Any]:
    """Return the problem, or an empty one if the answer contains none."""
    if not response.headers.get("content-type", "").startswith(_PROBLEM):
        return {}
    try:
        body: object = msgspec.json.decode(response.content)
    except msgspec.DecodeError:
        return {}
    return body if isinstance(body, dict) and set(body) >= _FIELDS else {}


def _classes() -> dict[str, type[StepwellError]]:
    """Return the classes of errors by code. For a code of several classes, the most general one."""
    # The error of an invalid graph is built from its problems, by code that clients do not load.
    classes: dict[str, type[StepwellError]] = {"INVALID_GRAPH": InvalidDefinition}
    for kind in _below(StepwellError):
        classes.setdefault(kind.code, kind)
    return classes


def _below(kind: type[StepwellError]) -> Iterator[type[StepwellError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _below(child)
