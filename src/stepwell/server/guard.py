"""Guard: the outermost layer. It checks where a request comes from, and sets headers on every answer."""

from __future__ import annotations

import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stepwell.domain.hops import HOPS_MAX, hops_here
from stepwell.errors import RecursionLimit
from stepwell.outbound.headers import DEPTH
from stepwell.server.access import Access
from stepwell.server.refusal import Refusal, answer

_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "cross-origin-resource-policy": "same-origin",
}
_PROBES = ("/healthz", "/readyz")  # monitors ask with HEAD, too


class Guard:
    def __init__(self, app: ASGIApp, *, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        scope["stepwell.request_id"] = request_id
        if scope.get("method") == "HEAD" and scope["path"].endswith(_PROBES):
            scope = {**scope, "method": "GET"}  # the listener leaves out the body

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
                headers["x-request-id"] = request_id
            await send(message)

        try:
            headers = Headers(scope=scope)
            _check_framing(headers)
            self._access.check_source(headers)
            hops = _hops(headers)
        except Refusal as refusal:
            await deny(refusal, scope, receive, send_with_headers)
            return
        token = hops_here.set(hops)
        try:
            await self._app(scope, receive, send_with_headers)
        finally:
            hops_here.reset(token)


async def deny(error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with its problem. Refuse a socket with it, if the listener can send one."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    await answer(error, HTTPConnection(scope))(scope, receive, send)


def _hops(headers: Headers) -> int:
    """Return how many runs led to this request. A run says so in its calls."""
    text = headers.get(DEPTH, "0")
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else HOPS_MAX + 1
    if count > HOPS_MAX:
        raise Refusal(
            429,
            RecursionLimit.code,
            f"{text[:20]} runs have called one another",
            hint="a workflow calls this server, which starts it again",
        )
    return count


def _check_framing(headers: Headers) -> None:
    """Refuse a request with two lengths: a proxy in front of us may use the other one."""
    if "transfer-encoding" in headers and "content-length" in headers:
        raise Refusal(
            400,
            "HTTP_FRAMING",
            "the request has both Content-Length and Transfer-Encoding",
            headers={"Connection": "close"},
        )
