"""Connections of calls to the outside: a name is resolved once, checked, and the checked address is used.

The check is where the connection is made, so nothing can change between the two, and a redirect, a retry or
a second connection cannot get around it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import ip_address

import httpcore2
from httpcore2 import AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream

from stepwell.outbound.addresses import Address, AllowedNetworks, is_forbidden
from stepwell.outbound.errors import OutboundFailed, OutboundRefused

Resolve = Callable[[str, int], Awaitable[list[Address]]]


async def resolve(host: str, port: int) -> list[Address]:
    """Ask the system's resolver; OutboundFailed if it has no answer."""
    try:
        entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OutboundFailed(
            "DNS_ERROR", f"the host {host} cannot be resolved: {error}", hint="check its name"
        ) from None
    return list(dict.fromkeys(ip_address(str(entry[4][0]).partition("%")[0]) for entry in entries))


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
                return await self._sockets.connect_tcp(
                    str(address), port, timeout, local_address, socket_options
                )
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
