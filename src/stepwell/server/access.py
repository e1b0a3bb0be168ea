"""Access: who calls, what they may do, and from where.

Local mode has no keys. A launch token, made at the start of the server, opens it: as a bearer token, or
once in the address (`/?t=...`), which answers with a cookie. Keys of the database will join in
`authenticate`; routes ask only for a Principal.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request

from stepwell.domain.commit import DEFAULT_WORKSPACE
from stepwell.errors import SettingsInvalid, excerpt
from stepwell.server.refusal import Refusal

Scope = Literal["read", "run", "approve", "edit", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "run", "approve", "edit", "admin")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A person or service. Identity and workspace come from here, never from a body, path or header."""

    name: str
    workspace: str
    scopes: frozenset[Scope]
    roles: tuple[str, ...] = ()
    local: bool = False  # on a developer's machine: may name anybody as the one who decides

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or "admin" in self.scopes


LOCAL = Principal(name="local", workspace=DEFAULT_WORKSPACE, scopes=frozenset(SCOPES), local=True)


class Access:
    def __init__(
        self,
        *,
        token: str | None = None,
        hosts: Iterable[str] = LOOPBACK,
        origins: Iterable[str] = (),
        auth: bool = True,
    ) -> None:
        if token is not None and len(token) < 16:
            raise SettingsInvalid("the token is shorter than 16 characters", hint="leave it out: one is made")
        self.token = token or secrets.token_urlsafe(32)
        self.auth = auth
        self._session = hmac.new(self.token.encode(), b"session", hashlib.sha256).hexdigest()
        self._hosts = frozenset(_checked_host(host) for host in hosts)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        if not auth and not self._hosts <= set(LOOPBACK):
            raise SettingsInvalid(
                "auth=False with hosts other than loopback",
                hint="everybody who reaches the server would be its admin; leave auth on",
            )

    # Where a request comes from

    def check_source(self, headers: Headers) -> None:
        """Refuse an unknown Host (DNS rebinding) and a page of another origin, whatever it asks for."""
        host = headers.get("host", "").lower()
        if "*" not in self._hosts and _name_of(host) not in self._hosts:
            raise Refusal(
                403,
                "HOST_NOT_ALLOWED",
                f"this server does not answer for {excerpt(host)}",
                hint="name the host when the server starts: --host-name, or asgi(hosts=[...])",
            )
        origin = headers.get("origin")
        if origin is not None and not self._own(origin, host):
            raise Refusal(
                403,
                "ORIGIN_NOT_ALLOWED",
                f"pages of {excerpt(origin)} may not call this server",
                hint="name the origin when the server starts: asgi(origins=[...])",
            )

    def _own(self, origin: str, host: str) -> bool:
        origin = origin.lower()
        parts = urlsplit(origin)
        return origin in self._origins or (parts.scheme in ("http", "https") and parts.netloc == host)

    # Who calls

    def authenticate(self, request: Request) -> Principal:
        """Return the caller; Refusal if the credentials are missing or wrong."""
        if not self.auth:
            return LOCAL
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind:
            if kind.lower() == "bearer" and _same(secret.strip(), self.token):
                return LOCAL
            raise _unauthenticated("the token is wrong")
        if _same(request.cookies.get(self.cookie(request), ""), self._session):
            return LOCAL
        raise _unauthenticated("this request has no token")

    def check_forgery(self, request: Request) -> None:
        """Refuse a change that only a cookie vouches for, unless the browser says that it is our page's."""
        if request.method in SAFE_METHODS or "authorization" in request.headers:
            return
        if not self.auth and not {"origin", "sec-fetch-site"} & set(request.headers):
            return  # not a browser
        if "origin" not in request.headers or request.headers.get("sec-fetch-site", "same-origin") not in (
            "same-origin",
            "none",
        ):
            raise Refusal(403, "CSRF", "a change with a cookie needs the Origin of this server")

    # The launch token

    def accepts(self, token: str) -> bool:
        return _same(token, self.token)

    def cookie(self, request: Request) -> str:
        """Return the cookie's name. Browsers share cookies between ports, so the port is part of it."""
        return f"stepwell_{request.headers.get('host', '').rpartition(':')[2].strip('[]').replace('.', '_')}"

    @property
    def session(self) -> str:
        return self._session


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(
        hashlib.sha256(given.encode()).digest(), hashlib.sha256(expected.encode()).digest()
    )


def _unauthenticated(message: str) -> Refusal:
    return Refusal(
        401,
        "UNAUTHENTICATED",
        message,
        hint="send the header Authorization: Bearer TOKEN, or open the address that the server printed",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _name_of(host: str) -> str:
    """Return the host without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _checked_host(host: str) -> str:
    if not host or "/" in host or (host != "*" and _name_of(host) != host):
        raise SettingsInvalid(f"{excerpt(host)} is not a host name", hint="give a name without a port")
    return host.lower()
