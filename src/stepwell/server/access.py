"""Access: who calls, what they may do, and from where they may call.

A key of the database opens a server, as a bearer token; a browser exchanges it for a session. So does the
launch token, created when the server starts: as a bearer token, or once in the address (`/?t=...`), which
answers with a cookie. Routes only ask for a Principal.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from stepwell.domain.access import Credential
from stepwell.errors import SettingsInvalid, excerpt
from stepwell.server.credentials import Credentials, unauthenticated
from stepwell.server.principal import LOCAL, Principal
from stepwell.server.proxy import TrustedProxy
from stepwell.server.refusal import Refusal

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class Access:
    def __init__(
        self,
        *,
        token: str | None = None,
        hosts: Iterable[str] = LOOPBACK,
        origins: Iterable[str] = (),
        auth: bool = True,
        proxy: TrustedProxy | None = None,
    ) -> None:
        if token is not None and len(token) < 16:
            raise SettingsInvalid("the token is shorter than 16 characters", hint="leave it out: one is made")
        self.token = token or secrets.token_urlsafe(32)
        self.auth = auth
        self._proxy = proxy
        self._credentials: Credentials | None = None
        self._session = hmac.new(self.token.encode(), b"session", hashlib.sha256).hexdigest()
        self._hosts = frozenset(_checked_host(host) for host in hosts)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        if not auth and not self._hosts <= set(LOOPBACK):
            raise SettingsInvalid(
                "auth=False with hosts other than loopback",
                hint="everybody who reaches the server would be its admin; leave auth on",
            )

    def use(self, credentials: Credentials) -> None:
        """Open keys and sessions with these."""
        self._credentials = credentials

    @property
    def credentials(self) -> Credentials:
        assert self._credentials is not None, "the app gives it its credentials"
        return self._credentials

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

    async def authenticate(self, request: HTTPConnection) -> Principal:
        """Return the caller. Refusal if the credentials are missing or wrong."""
        if not self.auth:
            return LOCAL
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        if kind:
            return await self._bearer(kind.lower(), text.strip(), address_of(request))
        if self._proxy is not None and (principal := self._proxy.principal(request)) is not None:
            return principal
        if session := request.cookies.get(self.cookie(request), ""):
            return await self._signed_in(session, address_of(request))
        raise unauthenticated("this request has no key")

    async def _bearer(self, kind: str, text: str, address: str) -> Principal:
        if kind != "bearer":
            raise unauthenticated("the header Authorization is not a bearer token")
        if _same(text, self.token):
            return LOCAL
        key = await self.credentials.open(text, "key", address)
        return principal_of(key, key)

    async def _signed_in(self, text: str, address: str) -> Principal:
        if _same(text, self._session):
            return LOCAL
        session = await self.credentials.open(text, "session", address)
        return principal_of(await self.credentials.key_of(session), session)

    async def link(self, request: Request) -> Credential:
        """Return the approval link that a request carries as a bearer token."""
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            raise unauthenticated("this request has no approval link")
        return await self.credentials.open_link(text.strip(), address_of(request))

    async def sign_in(self, request: Request, text: str) -> Credential:
        """Return the key that a browser signs in with."""
        return await self.credentials.open(text, "key", address_of(request))

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

    def check_socket_forgery(self, socket: HTTPConnection) -> None:
        """Refuse a socket with only a cookie, unless the browser says which page opens it."""
        if self.auth and not {"authorization", "origin"} & set(socket.headers):
            raise Refusal(403, "CSRF", "a socket with a cookie needs the Origin of this server")

    # Sessions of browsers

    def accepts(self, token: str) -> bool:
        return _same(token, self.token)

    def cookie(self, request: HTTPConnection) -> str:
        """Return the cookie's name. Browsers share cookies between ports, so the port is part of it.

        With TLS and at the root of a host, the prefix lets browsers refuse a cookie that another site set.
        """
        bound = request.url.scheme == "https" and not request.scope.get("root_path")
        port = request.headers.get("host", "").rpartition(":")[2].strip("[]").replace(".", "_")
        return f"{'__Host-' if bound else ''}stepwell_{port}"

    @property
    def session(self) -> str:
        """Return the session that the launch token opens."""
        return self._session

    def set_cookie(self, request: Request, response: Response, session: str, seconds: int | None) -> None:
        """Give a browser its session; only pages of this server can use it."""
        response.set_cookie(
            self.cookie(request),
            session,
            max_age=seconds,
            httponly=True,
            samesite="strict",
            path=request.scope.get("root_path", "") or "/",
            secure=request.url.scheme == "https",
        )

    def drop_cookie(self, request: Request, response: Response) -> None:
        """Tell a browser to forget its session."""
        response.delete_cookie(
            self.cookie(request),
            httponly=True,
            samesite="strict",
            path=request.scope.get("root_path", "") or "/",
            secure=request.url.scheme == "https",
        )


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(
        hashlib.sha256(given.encode()).digest(), hashlib.sha256(expected.encode()).digest()
    )


def principal_of(key: Credential, used: Credential) -> Principal:
    return Principal(
        name=key.name,
        workspace=key.workspace,
        scopes=frozenset(key.scopes),
        roles=key.roles,
        kind=key.principal,
        credential=used,
    )


def address_of(request: HTTPConnection) -> str:
    """Return where the request came from. Forwarded addresses count only if a named proxy sent them."""
    return request.client.host if request.client is not None else ""


def _name_of(host: str) -> str:
    """Return the host without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _checked_host(host: str) -> str:
    if not host or "/" in host or (host != "*" and _name_of(host) != host):
        raise SettingsInvalid(f"{excerpt(host)} is not a host name", hint="give a name without a port")
    return host.lower()
