"""Url: an address for an outgoing call, read strictly. What two parsers could read differently is refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any
from urllib.parse import quote, urljoin

from stepwell.errors import excerpt
from stepwell.outbound.errors import OutboundRefused

LENGTH_MAX = 8192
PORTS = frozenset({80, 443, 8080, 8443})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SHAPE = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>.*)", re.DOTALL)
_HOST = re.compile(
    r"(?=.{1,253}\.?\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.?"
)
_TARGET = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]{}|^\"-]|%[0-9A-Fa-f]{2})*")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


@dataclass(frozen=True, slots=True)
class Url:
    scheme: str
    host: str  # lower case, without brackets
    port: int
    target: str  # path and query

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The host as a Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    def joined(self, location: str, ports: Collection[int] = PORTS) -> Url:
        """Return the address to which a redirect leads."""
        if not location.isascii() or any(ord(character) <= 32 for character in location):
            raise _refused("URL_INVALID", f"a redirect leads to {excerpt(location)}")
        return parsed(urljoin(str(self), location.split("#", 1)[0]), ports)

    def with_query(self, query: Mapping[str, Any]) -> Url:
        """Return it with more parameters: a list gives one for each value, None gives none."""
        pairs = [
            f"{quote(name, safe='')}={quote(_text(value), safe='')}"
            for name, values in query.items()
            for value in (values if isinstance(values, list) else [values])
            if value is not None
        ]
        if not pairs:
            return self
        mark = "&" if "?" in self.target else "?"
        target = f"{self.target}{mark}{'&'.join(pairs)}"
        if len(target) > LENGTH_MAX:
            raise _refused("URL_INVALID", f"the address is longer than {LENGTH_MAX:,} characters")
        return Url(self.scheme, self.host, self.port, target)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise _refused(
        "URL_INVALID", f"a query parameter is {excerpt(value)}", hint="give text, numbers or lists"
    )


def parsed(text: str, ports: Collection[int] = PORTS) -> Url:
    """Parse an http or https URL. OutboundRefused says what is wrong with it."""
    if len(text) > LENGTH_MAX:
        raise _refused("URL_INVALID", f"the address is longer than {LENGTH_MAX:,} characters")
    shape = _SHAPE.fullmatch(text)
    scheme = shape["scheme"].lower() if shape else ""
    if shape is None or scheme not in _DEFAULT_PORTS:
        raise _refused(
            "URL_SCHEME", f"the address is {excerpt(text)}", hint="begin it with https:// or http://"
        )
    rest = shape["rest"]
    if not rest.startswith("//") or "\\" in rest:
        raise _refused("URL_INVALID", f"the address is {excerpt(text)}", hint="write https://host/path")
    authority = re.split(r"[/?#]", rest[2:], maxsplit=1)[0]
    target = rest[2 + len(authority) :]
    if "@" in authority:
        raise _refused(
            "URL_USERINFO",
            "the address has a user name before its host",
            hint="send credentials by name, never in an address",
        )
    host, port = _split(authority, scheme, ports)
    if "#" in target:
        raise _refused(
            "URL_INVALID", "the address has a fragment (#)", hint="leave it out; servers never see it"
        )
    if not target.startswith("/"):
        target = f"/{target}"
    if not _TARGET.fullmatch(target):
        raise _refused(
            "URL_INVALID",
            f"the path or query is {excerpt(target)}",
            hint="percent-encode spaces and letters beyond ASCII; the query field does so by itself",
        )
    return Url(scheme, host, port, target)


def _split(authority: str, scheme: str, ports: Collection[int]) -> tuple[str, int]:
    if authority.startswith("["):
        literal, bracket, tail = authority[1:].partition("]")
        try:
            host = str(IPv6Address(literal))
        except AddressValueError:
            raise _host(authority) from None
        if not bracket or "%" in literal or (tail and not tail.startswith(":")):
            raise _host(authority)
        number = tail[1:] if tail else ""
        given = bool(tail)
    else:
        name, colon, number = authority.partition(":")
        host, given = _name(name, authority), bool(colon)
    if not given:
        return host, _DEFAULT_PORTS[scheme]
    port = int(number) if number.isascii() and number.isdigit() and len(number) <= 5 else -1
    if port not in ports:
        allowed = ", ".join(str(each) for each in sorted(ports))
        raise _refused(
            "URL_PORT",
            f"the port is {excerpt(number)}",
            hint=f"calls may go to {allowed}; an operator can allow others (STEPWELL_OUTBOUND_PORTS)",
        )
    return host, port


def _name(name: str, authority: str) -> str:
    host = name.lower()
    if not _HOST.fullmatch(host):
        raise _host(authority)
    host = host.removesuffix(".")
    if _NUMBER.fullmatch(host.rsplit(".", 1)[-1]):
        # Resolvers read 127.1, 0x7f.1 and 2130706433 as addresses. Only the usual form is accepted.
        try:
            return str(IPv4Address(host))
        except AddressValueError:
            raise _refused(
                "SSRF_BLOCKED",
                f"the host {excerpt(name)} is a number in an unusual form",
                hint="write four decimal numbers, or a name",
            ) from None
    return host


def _host(authority: str) -> OutboundRefused:
    return _refused(
        "URL_HOST",
        f"the host is {excerpt(authority)}",
        hint="use letters, digits, dots and hyphens; write other alphabets as xn--...",
    )


def _refused(code: str, message: str, *, hint: str = "") -> OutboundRefused:
    return OutboundRefused(code, message, hint=hint)
