"""The body of a request: read up to a limit, then parsed strictly.

Parsers treat duplicate keys, large numbers and deep nesting differently. None of these are accepted, so
what is stored means the same to every reader.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from stepwell.errors import excerpt
from stepwell.server.refusal import Refusal

BODY_MAX = 4 * 1024 * 1024
DEFINITION_MAX = 5 * 1024 * 1024
DEPTH_MAX = 64
ELEMENTS_MAX = 100_000
INTEGER_MAX = 2**53 - 1
_READ_SECONDS = 30.0
# Of a body that is too large this much is read and dropped, so that a client that is still sending gets the
# answer instead of a broken connection.
_DISCARDED = 16 * 1024 * 1024
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


async def read_body(request: Request, most: int) -> bytes:
    """Read the body; Refusal if it is longer than `most` or does not arrive."""
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal():
        raise Refusal(400, "HTTP_FRAMING", "Content-Length is not a number")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refusal(415, "CONTENT_ENCODING", "the body is compressed", hint="send it as it is")
    data, size = bytearray(), 0
    too_large = len(announced) > 15 or int(announced) > most
    try:
        async with asyncio.timeout(_READ_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                too_large = too_large or size > most
                if not too_large:
                    data += chunk
                elif size > most + _DISCARDED:
                    break
    except TimeoutError:
        raise Refusal(408, "BODY_TIMEOUT", "the body did not arrive in time") from None
    except ClientDisconnect:
        raise Refusal(400, "HTTP_FRAMING", "the body ended early") from None
    if too_large:
        raise _too_large(most)
    return bytes(data)


def _too_large(most: int) -> Refusal:
    return Refusal(
        413,
        "BODY_TOO_LARGE",
        f"the body is larger than {most} bytes",
        hint="store large data elsewhere and pass a reference",
        headers={"Connection": "close"},
    )


def check_content_type(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(
            415,
            "CONTENT_TYPE",
            f"the body is {excerpt(kind)}" if kind else "the body has no Content-Type",
            hint="send JSON, with the header Content-Type: application/json",
        )


def parse(data: bytes) -> Any:
    """Return the value of a JSON text, or a Refusal that says where it is wrong."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(
            400, "ENCODING", f"byte {error.start} is not UTF-8", hint="send UTF-8 without a byte order mark"
        ) from None
    if text.startswith("\ufeff"):
        raise Refusal(400, "ENCODING", "the body begins with a byte order mark", hint="send UTF-8 without it")
    _check_size(data)
    try:
        value = _DECODER.decode(text)
        if _SURROGATE.search(data):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise Refusal(400, "STRING_UNICODE", "a text holds half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise Refusal(
            400,
            "JSON_INVALID",
            f"line {error.lineno}, column {error.colno}: {error.msg}",
            hint="send one JSON value",
        ) from None
    except RecursionError:
        raise _too_deep() from None


def _check_size(data: bytes) -> None:
    if data.count(b"[") + data.count(b"{") <= DEPTH_MAX and data.count(b",") <= ELEMENTS_MAX:
        return
    depth = elements = 0
    for match in _STRUCTURE.finditer(data):
        mark = match[0]
        if mark in (b"[", b"{"):
            depth += 1
            elements += 1
            if depth > DEPTH_MAX:
                raise _too_deep()
        elif mark in (b"]", b"}"):
            depth -= 1
        elif mark == b",":
            elements += 1
        if elements > ELEMENTS_MAX:
            raise Refusal(
                400, "JSON_TOO_MANY_NODES", f"the body has more than {ELEMENTS_MAX} values", hint="send fewer"
            )


def _too_deep() -> Refusal:
    return Refusal(400, "JSON_TOO_DEEP", f"the body is nested deeper than {DEPTH_MAX}", hint="flatten it")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()  # counting each name would take a minute for 100,000 names
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Refusal(
            400, "JSON_DUPLICATE_KEY", f"the key {excerpt(twice)} is there twice", field=twice[:100]
        )
    return value


def _integer(text: str) -> int:
    if len(text) > 400:
        raise Refusal(400, "JSON_NUMBER", f"a number has {len(text)} digits")
    value = int(text)
    if abs(value) > INTEGER_MAX:
        raise Refusal(
            422,
            "NUMBER_PRECISION",
            f"{text} is beyond ±{INTEGER_MAX}",
            hint="send it as text: many readers round it",
        )
    return value


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise Refusal(400, "JSON_NUMBER", f"{text[:40]} is too large for a number")
    return value


def _constant(text: str) -> NoReturn:
    raise Refusal(400, "JSON_NUMBER", f"{text} is not JSON", hint="send null, or text")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
