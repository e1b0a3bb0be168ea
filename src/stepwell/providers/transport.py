"""OutboundTransport: sends the requests of the providers' libraries through the outbound client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx2

from stepwell.outbound.client import OutboundClient, OutboundStream
from stepwell.outbound.errors import OutboundError
from stepwell.outbound.request import OutboundCredential, OutboundRequest

# The only headers of a library that are sent: no credentials from its environment, nothing about us.
_KEPT = frozenset({"content-type", "accept", "anthropic-version", "anthropic-beta"})
_DROPPED = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection"})


class OutboundTransport(httpx2.AsyncBaseTransport):
    """The transport of one request. `failure` is our error, which the libraries would wrap."""

    def __init__(
        self,
        client: OutboundClient,
        *,
        credential: OutboundCredential | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> None:
        self._client = client
        self._credential = credential
        self._headers = headers
        self._timeout = timeout
        self.failure: OutboundError | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {name: value for name, value in request.headers.items() if name.lower() in _KEPT}
        try:
            answer = await self._client.open(
                OutboundRequest(
                    method=request.method,
                    url=str(request.url),
                    headers={**headers, **self._headers},
                    body=await request.aread(),
                    timeout=self._timeout,
                    credential=self._credential,
                )
            )
        except OutboundError as error:
            self.failure = error
            raise httpx2.ConnectError(error.message) from error
        kept = {name: value for name, value in answer.headers.items() if name not in _DROPPED}
        return httpx2.Response(answer.status, headers=kept, stream=_Body(answer, self), request=request)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: OutboundStream, transport: OutboundTransport) -> None:
        self._answer = answer
        self._chunks = answer.chunks()  # a library may continue to read where it stopped
        self._transport = transport

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while (chunk := await anext(self._chunks, None)) is not None:
                yield chunk
        except OutboundError as error:
            self._transport.failure = error
            raise httpx2.ReadError(error.message) from error

    async def aclose(self) -> None:
        await self._answer.close()
