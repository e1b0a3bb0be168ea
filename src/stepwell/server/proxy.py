"""TrustedProxy: a reverse proxy that signs people in and names them in a header.

The header counts only if the connection itself comes from a named address. From anywhere else it is ignored,
as is everything that a client may claim about its own address.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from stepwell.domain.access import SCOPES, checked_scopes
from stepwell.domain.commit import DEFAULT_WORKSPACE
from stepwell.errors import SettingsInvalid, excerpt
from stepwell.server.principal import Principal

_NAME_MAX = 200
_GROUPS_MAX = 100
_PEER = "stepwell.peer"


class TrustedProxy:
    """Whom a reverse proxy may sign in, and what they may do.

    Everybody whom the proxy lets through has the `scopes`; people in `admins` have all of them. The groups of
    the `groups_header`, separated by commas, are their roles.
    """

    def __init__(
        self,
        addresses: Iterable[str],
        *,
        user_header: str,
        groups_header: str = "",
        scopes: Collection[str] = ("read", "run", "approve"),
        admins: Collection[str] = (),
        workspace: str = DEFAULT_WORKSPACE,
    ) -> None:
        self._networks = [_network(address) for address in addresses]
        if not self._networks or not user_header:
            raise SettingsInvalid(
                "a trusted proxy needs its addresses and the header that names the user",
                hint='TrustedProxy(["10.0.0.5"], user_header="X-Forwarded-User")',
            )
        self._user_header, self._groups_header = user_header, groups_header
        self._scopes, self._admins = frozenset(checked_scopes(scopes)), frozenset(admins)
        self._workspace = workspace

    def principal(self, request: HTTPConnection) -> Principal | None:
        """Return whom the proxy signed in. None: the request is not from the proxy, or names nobody."""
        names = request.headers.getlist(self._user_header)
        if len(names) != 1 or not self._is_proxy(peer_of(request.scope)):
            return None  # two names: somebody smuggled one past the proxy
        name = names[0].strip()
        if not name or len(name) > _NAME_MAX or not name.isprintable():
            return None
        return Principal(
            name=name,
            workspace=self._workspace,
            scopes=frozenset(SCOPES) if name in self._admins else self._scopes,
            roles=self._groups(request),
        )

    def _groups(self, request: HTTPConnection) -> tuple[str, ...]:
        text = request.headers.get(self._groups_header, "") if self._groups_header else ""
        groups = (group.strip() for group in text.split(",")[:_GROUPS_MAX])
        return tuple(group for group in groups if group and group.isprintable())

    def _is_proxy(self, peer: str) -> bool:
        try:
            address = ip_address(peer)
        except ValueError:
            return False
        return any(address in network for network in self._networks)


class PeerRecorder:
    """Keeps the address of the connection, before forwarded headers replace it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            scope[_PEER] = scope.get("client")
        await self._app(scope, receive, send)


def peer_of(scope: Scope) -> str:
    """Return the address that the connection comes from."""
    client = scope.get(_PEER, scope.get("client"))
    return str(client[0]) if client else ""


def _network(address: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(address.strip())
    except ValueError:
        raise SettingsInvalid(
            f"{excerpt(address)} is not an address of a proxy",
            hint="give addresses such as 10.0.0.5 or 10.0.0.0/24",
        ) from None
