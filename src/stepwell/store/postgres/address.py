"""Address: which database, which schema in it, and how it may be talked to."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from stepwell.errors import SettingsInvalid

DEFAULT_SCHEMA = "stepwell"
NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Address(NamedTuple):
    dsn: str  # without our options
    schema: str
    poll_only: bool  # behind PgBouncer in transaction mode: no session state, no LISTEN

    @property
    def shown(self) -> str:
        """For messages: without user and password."""
        parts = urlsplit(self.dsn)
        host = f"{parts.hostname or 'localhost'}:{parts.port or 5432}"
        return f"{host}{parts.path}"


def parse(url: str) -> Address:
    """Takes `schema` and `poll_only` out of the URL; the rest is for the driver."""
    parts = urlsplit(url)
    try:
        _ = parts.port
    except ValueError as error:
        raise SettingsInvalid(
            f"the address has no possible port: {error}", hint="postgresql://user@host:5432/database"
        ) from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = options.pop("schema", DEFAULT_SCHEMA)
    poll_only = options.pop("poll_only", "0")
    if not NAME.fullmatch(schema):
        raise SettingsInvalid(
            f"{schema!r} cannot be a schema",
            hint="use small letters, digits and underscores, e.g. ?schema=stepwell",
        )
    if poll_only not in {"0", "1"}:
        raise SettingsInvalid(f"poll_only is {poll_only!r}", hint="write poll_only=1, or leave it out")
    return Address(urlunsplit(parts._replace(query=urlencode(options))), schema, poll_only == "1")
