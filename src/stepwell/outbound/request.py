"""Request, response and rules of an outgoing call."""

from __future__ import annotations

import email.utils
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stepwell.errors import SettingsInvalid, excerpt
from stepwell.outbound.addresses import AllowedNetworks
from stepwell.outbound.url import PORTS

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
TIMEOUT = 60.0  # seconds for the whole call, redirects included
RESPONSE_BYTES_MAX = 10 * 1024 * 1024
REDIRECTS_MAX = 5
ALLOW = "STEPWELL_OUTBOUND_ALLOW"
MORE_PORTS = "STEPWELL_OUTBOUND_PORTS"
_TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class OutboundRules:
    """What an operator allows. Nothing in a graph or in data can change it."""

    allow: tuple[str, ...] = ()  # private networks that calls may reach
    ports: Collection[int] = PORTS

    @classmethod
    def of(cls, allow: Iterable[str] = (), ports: Iterable[int] = ()) -> OutboundRules:
        return cls(tuple(allow), PORTS | frozenset(ports))

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> OutboundRules:
        """Read the allowed networks and ports, separated by commas."""
        source = os.environ if env is None else env
        allow = [text.strip() for text in source.get(ALLOW, "").split(",") if text.strip()]
        AllowedNetworks(allow)  # raises if it is not a network
        return cls.of(allow, [_port(text) for text in source.get(MORE_PORTS, "").split(",") if text.strip()])


@dataclass(frozen=True, slots=True)
class OutboundCredential:
    """A header that is sent to its addresses only, not to other ones after a redirect."""

    name: str  # for people
    header: str
    value: str
    covers: Callable[[str, str, int], bool]  # scheme, host, port

    def __repr__(self) -> str:
        return f"<credential {self.name}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundRequest:
    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float = TIMEOUT
    response_bytes_max: int = RESPONSE_BYTES_MAX
    redirects_max: int = REDIRECTS_MAX
    credential: OutboundCredential | None = None
    depth: int = 0  # length of the chain of runs that led to this call


@dataclass(frozen=True, slots=True)
class OutboundResponse:
    status: int
    headers: dict[str, str]  # names in lower case; repeated ones joined by ", "
    body: bytes
    url: str  # the address after redirects

    @property
    def is_temporary(self) -> bool:
        """Whether the status says that another attempt may succeed."""
        return self.status in _TEMPORARY

    def retry_after(self, now: float) -> float | None:
        """Seconds until the service wants to be asked again, or None if it does not say."""
        text = self.headers.get("retry-after", "")
        if text.isascii() and text.isdigit():
            return float(text[:12])
        try:
            return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
        except (ValueError, TypeError, OverflowError):
            return None


def _port(text: str) -> int:
    number = text.strip()
    if not number.isascii() or not number.isdigit() or not 0 < int(number) < 65536:
        raise SettingsInvalid(f"{MORE_PORTS} has {excerpt(number)}", hint="give ports, 1 to 65535")
    return int(number)
