"""Credentials: the one place where the text of a key, session or link is opened.

A row is cached for half a second: a client that calls often costs few reads, and every server refuses a
revoked key within a second. Failures are counted by address and by credential. After 20 in a minute nothing
more is looked up, except for credentials that were used from that address before: guessing must not lock
out others who share the address.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from stepwell.app import Engine
from stepwell.domain.access import Credential, CredentialKind, CredentialText, digest_of, parse
from stepwell.errors import StepwellError
from stepwell.server.refusal import Refusal

ATTEMPTS_MAX = 20  # failures a minute
_WINDOW = 60.0  # seconds
_ROW_SECONDS = 0.5
_REMEMBERED = 10_000  # rows, addresses, credentials: what a stranger can make us remember is bounded
_USE_SECONDS = 300.0  # the last use is written at most this often
_NOBODY = Credential(id="", kind="key", name="", digest=digest_of(""))
_log = logging.getLogger("stepwell.server")


class Credentials:
    def __init__(
        self, engine: Engine, *, attempts: int = ATTEMPTS_MAX, clock: Callable[[], float] = time.time
    ) -> None:
        self._engine = engine
        self._clock = clock
        self.failures = FailureCount(attempts)
        self._rows: dict[str, tuple[Credential | None, float]] = {}

    async def open(self, text: str, kind: CredentialKind, address: str) -> Credential:
        """Return the live credential of this text; Refusal for any other text, always in the same way."""
        row = await self._known(text, kind, address)
        if not row.is_live(self._clock()):
            what = "was revoked" if row.revoked_at is not None else "has expired"
            raise self.failures.failure(address, row.id, f"the {kind} {what}")
        self.failures.succeeded(address, row.id)
        await self._mark_used(row)
        return row

    async def open_link(self, text: str, address: str) -> Credential:
        """Return the live link of this text. Its holder may learn why it no longer opens anything."""
        row = await self._known(text, "link", address)
        if row.revoked_at is not None:
            when = datetime.fromtimestamp(row.revoked_at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            raise Refusal(
                410,
                "LINK_USED",
                "this link was used",
                hint="a link decides once; ask for another",
                context={"decided_by": row.name, "decided_at": when} if row.revoked_by == row.name else {},
            )
        if row.is_expired(self._clock()):
            raise Refusal(410, "LINK_EXPIRED", "this link has expired", hint="ask for another")
        return row

    async def _known(self, text: str, kind: CredentialKind, address: str) -> Credential:
        """Return the credential that this text opens, dead or alive."""
        parsed = parse(text) or CredentialText(kind, "", "")
        self.failures.check(address, parsed.id)
        row = await self._row(parsed.id) if parsed.kind == kind and parsed.id else None
        right = (row or _NOBODY).opens_with(parsed.secret)  # the same work for an id that does not exist
        if row is None or not right or row.kind != kind:
            raise self.failures.failure(address, parsed.id, f"the {kind} is wrong")
        return row

    async def key_of(self, session: Credential) -> Credential:
        """Return the key that a session was opened with; a session ends with its key."""
        key = await self._row(session.key)
        if key is None or not key.is_live(self._clock()):
            raise unauthenticated("the key of this session was revoked or has expired")
        return key

    async def _row(self, id: str) -> Credential | None:
        now = asyncio.get_running_loop().time()
        row, read_at = self._rows.get(id, (None, float("-inf")))
        if now - read_at > _ROW_SECONDS:
            row = await self._engine.keys.read(id)
            if row is not None:
                _bounded(self._rows)[id] = (row, now)
        return row

    def forget(self, id: str) -> None:
        """Read it again next time: it was revoked here."""
        self._rows.pop(id, None)

    async def _mark_used(self, row: Credential) -> None:
        """Write the use, once in five minutes; the request does not fail if that fails."""
        now = self._clock()
        if row.used_at is not None and now - row.used_at < _USE_SECONDS:
            return
        if row.id in self._rows:  # others who come now need not write it
            self._rows[row.id] = (replace(row, used_at=now), self._rows[row.id][1])
        try:
            await self._engine.keys.mark_used([row.id])
        except StepwellError as error:
            _log.warning("the use of credential %s was not recorded: %s", row.id, error)


class FailureCount:
    """Failures of the last minute, by address and by credential."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._failures: dict[str, tuple[float, int]] = {}  # since, how many
        self._trusted: dict[tuple[str, str], None] = {}  # address and credential that were right

    def check(self, address: str, id: str = "") -> None:
        """Refuse to look at one more credential after too many failures."""
        if self._locked(address, id) and (address, id) not in self._trusted:
            raise _too_many()

    def count(self, address: str, id: str = "") -> None:
        now = time.monotonic()
        for name in _names(address, id):
            since, count = self._recent(name)
            _bounded(self._failures)[name] = (since if count else now, count + 1)

    def failure(self, address: str, id: str, message: str) -> Refusal:
        """Count a failure and return its refusal."""
        locked = self._locked(address, id)
        self.count(address, id)
        return _too_many() if locked else unauthenticated(message)

    def succeeded(self, address: str, id: str = "") -> None:
        if (address, id) not in self._trusted:
            _bounded(self._trusted)[address, id] = None

    def _locked(self, address: str, id: str) -> bool:
        return any(self._recent(name)[1] >= self._most for name in _names(address, id))

    def _recent(self, name: str) -> tuple[float, int]:
        since, count = self._failures.get(name, (0.0, 0))
        return (since, count) if time.monotonic() - since < _WINDOW else (0.0, 0)


def _names(address: str, id: str) -> list[str]:
    return [f"address {address}", *([f"credential {id}"] if id else [])]


def _bounded(entries: dict[Any, Any]) -> dict[Any, Any]:
    """Make room for one more entry; the oldest goes."""
    if len(entries) >= _REMEMBERED:
        del entries[next(iter(entries))]
    return entries


def _too_many() -> Refusal:
    return Refusal(
        429,
        "TOO_MANY_ATTEMPTS",
        "too many requests with a wrong key, signature or webhook came from this address, or for this key",
        hint="wait a minute, then send the right one",
        headers={"Retry-After": str(round(_WINDOW))},
    )


def unauthenticated(message: str) -> Refusal:
    return Refusal(
        401,
        "UNAUTHENTICATED",
        message,
        hint="send the header Authorization: Bearer KEY, or open the address that the server printed",
        headers={"WWW-Authenticate": "Bearer"},
    )
