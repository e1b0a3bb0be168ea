"""A server on loopback that answers with given bytes, and counts its connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address

from stepwell.outbound.client import OutboundClient
from stepwell.outbound.request import OutboundRules

Answer = bytes | Callable[[bytes, asyncio.StreamWriter], "asyncio.Future[None] | object"]


class Listener:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.connections = 0
        self.requests: list[bytes] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    (
                        int(line[15:])
                        for line in head.lower().split(b"\r\n")
                        if line.startswith(b"content-length:")
                    ),
                    0,
                )
                self.requests.append(head + await reader.readexactly(length))
                if isinstance(self.answer, bytes):
                    writer.write(self.answer)
                    await writer.drain()
                else:
                    told = self.answer(self.requests[-1], writer)
                    if asyncio.iscoroutine(told):
                        await told
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listening(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Listener]:
    listener = Listener(answer)
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0, ssl=tls)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()


def answered(body: bytes = b"ok", status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


@asynccontextmanager
async def client_of(
    *listeners: Listener,
    allow: tuple[str, ...] = ("127.0.0.1",),
    tls: ssl.SSLContext | None = None,
    **names: str,
) -> AsyncIterator[OutboundClient]:
    """A client that may call these listeners, and resolves these names (dots written as `_`)."""
    table = {name.replace("_", "."): address.split() for name, address in names.items()}

    async def resolver(host: str, port: int) -> list[IPv4Address | IPv6Address]:
        return [ip_address(text) for text in table[host]]

    rules = OutboundRules.of(allow, [listener.port for listener in listeners])
    client = OutboundClient(rules, resolver=resolver, tls=tls)
    try:
        yield client
    finally:
        await client.close()
