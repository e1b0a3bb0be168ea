"""Connections of calls to the outside: a name is resolved once, checked, and the checked address is used.

The check is where the connection is made, so nothing can change between the two, and a redirect, a retry or
a second connection cannot get around it.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from ipaddress import ip_address
from typing import Any

import httpcore2
from httpcore2 import AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream

from stepwell.outbound.addresses import Address, AllowedNetworks, is_forbidden
from stepwell.outbound.errors import OutboundFailed, OutboundRefused

_LOOKUPS_MAX = 32
Resolve = Callable[[str, int], Awaitable[list[Address]]]


async def resolve(host: str, port: int) -> list[Address]:
    """Ask the system's resolver; OutboundFailed if it has no answer."""
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        entries = await asyncio.get_running_loop().run_in_executor(_lookups(), look_up)
    except (OSError, UnicodeError) as error:
        raise OutboundFailed(
            "DNS_ERROR", f"the host {host} cannot be resolved: {error}", hint="check its name"
        ) from None
    return list(dict.fromkeys(ip_address(str(entry[4][0]).partition("%")[0]) for entry in entries))


@cache
def _lookups() -> ThreadPoolExecutor:
    """Threads of their own: a lookup cannot be ended, and must not hold up other work in threads."""
    return ThreadPoolExecutor(_LOOKUPS_MAX, thread_name_prefix="stepwell-dns")


class CheckedConnections(AsyncNetworkBackend):
    """Connects to checked addresses only."""

    def __init__(self, allowed: AllowedNetworks, resolver: Resolve = resolve) -> None:
        self._allowed = allowed
        self._resolve = resolver
        self._sockets = AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        addresses = await self._checked(host, port)
        for number, address in enumerate(addresses, 1):
            try:
                stream = await self._sockets.connect_tcp(
                    str(address), port, timeout, local_address, socket_options
                )
                return PolledStream(stream)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                if number == len(addresses):
                    raise
        raise OutboundFailed("DNS_ERROR", f"the host {host} has no address")

    async def _checked(self, host: str, port: int) -> list[Address]:
        """Return all addresses of the host; one that is forbidden forbids them all."""
        try:
            addresses = [ip_address(host)]
        except ValueError:
            addresses = await self._resolve(host, port)
        for address in addresses:
            if is_forbidden(address) and address not in self._allowed:
                raise OutboundRefused(
                    "SSRF_BLOCKED",
                    f"the host {host} is a private or reserved address",
                    hint="calls may go to public addresses; an operator can allow others "
                    "(STEPWELL_OUTBOUND_ALLOW)",
                )
        return addresses

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        raise OutboundRefused("URL_SCHEME", "calls cannot go to a socket file")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class PolledStream(AsyncNetworkStream):
    """A connection that tells cheaply whether its other end has hung up.

    The pool asks every idle connection at every request. The way in which connections ask themselves took
    most of the time of a request among a hundred of them.
    """

    def __init__(self, stream: AsyncNetworkStream) -> None:
        self._stream = stream
        self._poll: select.poll | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        self._poll = None
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> AsyncNetworkStream:
        return PolledStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        if info != "is_readable":
            return self._stream.get_extra_info(info)
        if self._poll is None:
            number = self._stream.get_extra_info("socket").fileno()
            if number < 0:
                return True  # closed: nothing can be sent on it
            self._poll = select.poll()
            self._poll.register(number, select.POLLIN | select.POLLHUP | select.POLLERR)
        return bool(self._poll.poll(0))
