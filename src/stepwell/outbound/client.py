"""OutboundClient: sends requests to other systems, follows redirects, and reads answers within limits."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import httpcore2

from stepwell.errors import excerpt
from stepwell.outbound import body as bodies
from stepwell.outbound.addresses import AllowedNetworks
from stepwell.outbound.connections import CheckedConnections, Resolve, resolve
from stepwell.outbound.errors import OutboundError, OutboundFailed, OutboundRefused
from stepwell.outbound.headers import CREDENTIALS, DEPTH, DEPTH_MAX, checked
from stepwell.outbound.request import METHODS, OutboundRequest, OutboundResponse, OutboundRules
from stepwell.outbound.url import Url, parsed

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CONNECTIONS_MAX = 1000
_IDLE_MAX = 100
_IDLE_SECONDS = 15.0


class OutboundClient:
    """Makes calls by the operator's rules. An engine has one; idle connections are kept briefly."""

    def __init__(
        self,
        rules: OutboundRules | None = None,
        *,
        resolver: Resolve = resolve,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.rules = rules or OutboundRules()
        self._resolver = resolver
        self._tls = tls
        self._pool: httpcore2.AsyncConnectionPool | None = None

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    async def send(self, request: OutboundRequest) -> OutboundResponse:
        """Send a request. OutboundRefused if it is not allowed, OutboundFailed without a usable answer.

        An answer of any status is returned.
        """
        url, headers = self._checked(request)
        try:
            async with asyncio.timeout(request.timeout) as limit:
                return await self._follow(request, url, headers)
        except TimeoutError:
            if not limit.expired():
                raise
            raise _too_slow(url, request) from None

    async def open(self, request: OutboundRequest) -> OutboundStream:
        """Send a request, and return the answer once its headers are there; the caller reads and closes it.

        A redirect is returned as it is. The timeout is for the whole call, the limit for the body.
        """
        url, headers = self._checked(request)
        until = asyncio.get_running_loop().time() + request.timeout
        try:
            async with asyncio.timeout_at(until) as limit, self.errors(url):
                plain = headers | {"accept-encoding": "identity"}
                wire = self._wire(request, request.method, url, plain, request.body)
                response = await self._opened().handle_async_request(wire)
        except TimeoutError:
            if not limit.expired():
                raise
            raise _too_slow(url, request) from None
        return OutboundStream(self, request, url, response, until)

    def _checked(self, request: OutboundRequest) -> tuple[Url, dict[str, str]]:
        """Return the address and the headers of an allowed request."""
        if request.method not in METHODS:
            raise OutboundRefused(
                "HTTP_METHOD",
                f"the method is {excerpt(request.method)}",
                hint=f"use one of {', '.join(METHODS)}",
            )
        if request.depth > DEPTH_MAX:
            raise OutboundRefused(
                "RECURSION_LIMIT",
                f"{request.depth} runs have called one another",
                hint="a workflow calls itself",
            )
        url = parsed(request.url, self.rules.ports).with_query(request.query)
        headers = checked(request.headers)
        credential = request.credential
        if credential is not None:
            if not credential.covers(url.scheme, url.host, url.port):
                host = url.authority if url.scheme == "https" else f"{url.scheme}://{url.authority}"
                raise OutboundRefused(
                    "SECRET_HOST",
                    f"the secret {excerpt(credential.name)} may not be sent to {url.scheme}://{url.authority}",
                    hint="name this host when you set the secret: "
                    f"stepwell secrets set {credential.name} --host {host}",
                )
            headers |= checked({credential.header: credential.value})
        return url, headers

    async def _follow(self, request: OutboundRequest, url: Url, headers: dict[str, str]) -> OutboundResponse:
        method, body = request.method, request.body
        for hop in range(request.redirects_max + 1):
            answer = await self._exchange(request, method, url, headers, body)
            location = answer.headers.get("location", "")
            if answer.status not in _REDIRECTS or not location or request.redirects_max == 0:
                return answer
            target = url.joined(location, self.rules.ports)
            if answer.status in (307, 308):
                if target.origin != url.origin and method not in ("GET", "HEAD"):
                    return answer  # a body is not sent to another host
            elif method not in ("GET", "HEAD"):
                method, body = "GET", None
                headers = {name: value for name, value in headers.items() if not name.startswith("content-")}
            if target.origin != url.origin:
                own = request.credential.header if request.credential else ""
                headers = {
                    name: value for name, value in headers.items() if name not in CREDENTIALS and name != own
                }
            url = target
            if hop == request.redirects_max:
                break
        raise OutboundFailed(
            "HTTP_REDIRECTS",
            f"{url.host} redirects more than {request.redirects_max} times",
            hint="call the last address directly",
            permanent=True,
        )

    async def _exchange(
        self, request: OutboundRequest, method: str, url: Url, headers: dict[str, str], body: bytes | None
    ) -> OutboundResponse:
        wire = self._wire(request, method, url, headers | {"accept-encoding": bodies.ACCEPTED}, body)
        async with self.errors(url):
            response = await self._opened().handle_async_request(wire)
            try:
                received = _joined(response.headers)
                encoding = received.get("content-encoding", "") if method != "HEAD" else ""
                data = await bodies.read(response.aiter_stream(), encoding, request.response_bytes_max)
            finally:
                await response.aclose()
        return OutboundResponse(response.status, received, data, str(url))

    @staticmethod
    def _wire(
        request: OutboundRequest, method: str, url: Url, headers: dict[str, str], body: bytes | None
    ) -> httpcore2.Request:
        sent = {
            "host": url.authority,
            "accept": "*/*",
            "user-agent": "stepwell",
            **headers,
            DEPTH: str(request.depth + 1),
        }
        if body is not None or method in ("POST", "PUT", "PATCH"):
            sent["content-length"] = str(len(body or b""))
        return httpcore2.Request(
            method,
            httpcore2.URL(
                scheme=url.scheme.encode(),
                host=url.host.encode(),
                port=url.port,
                target=url.target.encode(),
            ),
            headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent.items()],
            content=body,
        )

    def _opened(self) -> httpcore2.AsyncConnectionPool:
        if self._pool is None:
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=self._tls or ssl.create_default_context(),
                max_connections=_CONNECTIONS_MAX,
                max_keepalive_connections=_IDLE_MAX,
                keepalive_expiry=_IDLE_SECONDS,
                network_backend=CheckedConnections(AllowedNetworks(self.rules.allow), self._resolver),
            )
        return self._pool

    @asynccontextmanager
    async def errors(self, url: Url) -> AsyncIterator[None]:
        """Translate errors of the connection into ours."""
        try:
            yield
        except OutboundError:
            raise
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout, ssl.SSLError) as error:
            cause = error.__cause__ or error.__context__ or error
            if isinstance(cause, ssl.SSLError) or isinstance(error, ssl.SSLError):
                raise OutboundFailed(
                    "TLS_ERROR", f"the certificate or TLS of {url.host} is not accepted: {_reason(cause)}"
                ) from None
            raise OutboundFailed(
                "HTTP_CONNECT", f"{url.host} does not accept the connection: {cause}"
            ) from None
        except (httpcore2.ProtocolError, httpcore2.UnsupportedProtocol) as error:
            raise OutboundFailed(
                "HTTP_PROTOCOL", f"the answer of {url.host} is not valid HTTP: {str(error)[:200]}"
            ) from None
        except (httpcore2.NetworkError, httpcore2.TimeoutException, OSError) as error:
            raise OutboundFailed(
                "HTTP_CONNECT", f"the connection to {url.host} broke: {type(error).__name__}"
            ) from None


class OutboundStream:
    """An answer that is read as it arrives: once, until it ends or is closed."""

    def __init__(
        self,
        client: OutboundClient,
        request: OutboundRequest,
        url: Url,
        response: httpcore2.Response,
        until: float,
    ) -> None:
        self._client = client
        self._request = request
        self._url = url
        self._response = response
        self._until = until  # in the time of the event loop
        self.status = response.status
        self.headers = _joined(response.headers)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body. OutboundFailed if it breaks off, is encoded, too long or too late."""
        length, most = 0, self._request.response_bytes_max
        bodies.check_plain(self.headers.get("content-encoding", ""))
        parts = aiter(self._response.aiter_stream())
        while True:
            try:
                async with asyncio.timeout_at(self._until) as limit, self._client.errors(self._url):
                    part = await anext(parts, None)
            except TimeoutError:
                if not limit.expired():
                    raise
                raise _too_slow(self._url, self._request) from None
            if part is None:
                return
            length += len(part)
            bodies.check_length(length, most)
            yield part

    async def close(self) -> None:
        await self._response.aclose()


def _too_slow(url: Url, request: OutboundRequest) -> OutboundFailed:
    return OutboundFailed(
        "HTTP_TIMEOUT", f"{url.host} took longer than {request.timeout:g} s", hint="raise the timeout"
    )


def _reason(error: BaseException) -> str:
    return str(getattr(error, "verify_message", "") or getattr(error, "reason", "") or error)[:200]


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
