"""Address: the database, its schema, and how to talk to it."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from stepwell.errors import SettingsInvalid, excerpt

DEFAULT_SCHEMA = "stepwell"
NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
PORT_MAX = 65_535
_HINT = "postgresql://user@host:5432/database, or several: postgresql://user@h1:5432,h2:5433/database"
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(.*))?")


class Address(NamedTuple):
    dsn: str  # without our options
    schema: str
    poll_only: bool  # through PgBouncer in transaction mode: no session state, no LISTEN

    @property
    def redacted(self) -> str:
        """The address without user and password, for messages."""
        parts = urlsplit(self.dsn)
        return f"{','.join(f'{host}:{port}' for host, port in _hosts(parts))}{parts.path}"

    @property
    def plain(self) -> str:
        """The address of the same tables, without user and password."""
        return (
            f"postgresql://{self.redacted}{f'?schema={self.schema}' if self.schema != DEFAULT_SCHEMA else ''}"
        )


def _hosts(parts: SplitResult) -> list[tuple[str, int]]:
    """Return hosts with their ports; several (`h1:5432,h2:5433`) are tried in turn, as libpq does."""
    hosts = []
    for place in parts.netloc.rpartition("@")[2].split(","):
        fits = _HOST.fullmatch(place)
        host, port = fits.groups() if fits is not None else (place, "")
        if fits is None or (port and not (port.isascii() and port.isdigit() and 0 < int(port) <= PORT_MAX)):
            raise SettingsInvalid(
                f"{excerpt(place)} in the address does not have a valid port",
                hint=_HINT,
            )
        hosts.append((host or "localhost", int(port or 5432)))
    return hosts


def parse(url: str) -> Address:
    """Take `schema` and `poll_only` out of the URL; the rest is for the driver."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise SettingsInvalid(
            f"the host and port of the address cannot be read: {error}", hint=_HINT
        ) from None
    _hosts(parts)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = options.pop("schema", DEFAULT_SCHEMA)
    poll_only = options.pop("poll_only", "0")
    if not NAME.fullmatch(schema):
        raise SettingsInvalid(
            f"{excerpt(schema)} is not a valid schema name",
            hint="use lower-case letters, digits and underscores, e.g. ?schema=stepwell",
        )
    if poll_only not in {"0", "1"}:
        raise SettingsInvalid(f"poll_only is {excerpt(poll_only)}", hint="write poll_only=1 or leave it out")
    return Address(urlunsplit(parts._replace(query=urlencode(options))), schema, poll_only == "1")
