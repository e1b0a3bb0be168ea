"""Headers of an outgoing call: which of them a caller may set, and which values are valid."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stepwell.domain.hops import HOPS_MAX
from stepwell.errors import excerpt
from stepwell.outbound.errors import OutboundRefused

BYTES_MAX = 65_536
DEPTH = "x-stepwell-depth"
DEPTH_MAX = HOPS_MAX
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# These describe the connection and the body; the client sets them.
_OWN = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te"),
        *("trailer", "expect", "proxy-authorization", "proxy-connection", "accept-encoding", DEPTH),
    )
)
# Dropped when a redirect leads to another origin.
CREDENTIALS = frozenset({"authorization", "cookie", "x-api-key"})


def checked(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with names in lower case. OutboundRefused for one that a caller must not set."""
    kept: dict[str, str] = {}
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _OWN:
            raise OutboundRefused(
                "HEADER_FORBIDDEN",
                f"the header {excerpt(name)} cannot be set",
                hint="leave it out; the client sets what describes the connection",
            )
        if not _VALUE.fullmatch(value) or value != value.strip():
            raise OutboundRefused(
                "HEADER_INVALID",
                f"the value of the header {name} has a line break, or another character it must not have",
                hint="remove it, or encode the value",
            )
        kept[name.lower()] = value
    if sum(len(name) + len(value) + 4 for name, value in kept.items()) > BYTES_MAX:
        raise OutboundRefused("HEADER_INVALID", f"the headers are longer than {BYTES_MAX:,} bytes")
    return kept
