"""Access: credentials as they are stored, and the audit list.

A credential proves who calls: an API key, a session of a browser, or an approval link. Its text is shown
once, as `sw_key_<id>_<secret>`. The secret has 256 random bits, so a plain SHA-256 of it can be stored: there
is nothing that a slow hash would protect.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

import msgspec

from stepwell.domain.commit import DEFAULT_WORKSPACE
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import InvalidInput, excerpt

AccessScope = Literal["read", "run", "approve", "edit", "admin"]
CredentialKind = Literal["key", "session", "link"]
PrincipalKind = Literal["person", "service"]
SCOPES: tuple[AccessScope, ...] = get_args(AccessScope)

_PREFIX = "sw"
_TEXT_MAX = 200


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the credentials. `name` is who calls with it; times are seconds since the epoch."""

    id: str
    kind: CredentialKind
    name: str
    digest: str  # SHA-256 of the secret, in hex
    workspace: str = DEFAULT_WORKSPACE
    principal: PrincipalKind = "service"
    scopes: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    key: str = ""  # of a session: the key that it was opened with
    run_id: str = ""  # of a link: the run, and the wait that it answers
    path: str = ""
    seq: int = 0  # of the event that opened that wait
    created_at: float = 0.0
    created_by: str = ""
    expires_at: float | None = None
    used_at: float | None = None  # within a few minutes
    revoked_at: float | None = None
    revoked_by: str = ""

    def opens_with(self, secret: str) -> bool:
        return hmac.compare_digest(digest_of(secret), self.digest)

    def is_live(self, now: float) -> bool:
        return self.revoked_at is None and not self.is_expired(now)

    def is_expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One request that changed something, or tried to. Ids sort by time."""

    id: str
    at: float
    workspace: str
    by: str
    action: str  # name of the route
    path: str
    status: int
    credential: str = ""  # id of the one that was used
    address: str = ""


class CredentialText(NamedTuple):
    """What the owner of a credential has."""

    kind: CredentialKind
    id: str
    secret: str

    def __str__(self) -> str:
        return f"{_PREFIX}_{self.kind}_{self.id}_{self.secret}"


def parse(text: str) -> CredentialText | None:
    """Take the text of a credential apart; None: it cannot be one."""
    prefix, *parts = text.split("_", 3) if len(text) <= _TEXT_MAX and text.isascii() else [""]
    if prefix != _PREFIX or len(parts) != 3:
        return None
    _, id, secret = parts
    kinds: tuple[CredentialKind, ...] = get_args(CredentialKind)
    kind = next((kind for kind in kinds if kind == parts[0]), None)
    return CredentialText(kind, id, secret) if kind is not None and id.isalnum() and secret else None


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def checked_scopes(scopes: Iterable[str]) -> tuple[AccessScope, ...]:
    """Return the scopes in their order, each once; InvalidInput for one that does not exist."""
    if isinstance(scopes, str):
        raise InvalidInput(
            f"scopes is {excerpt(scopes)}", hint='pass a list: scopes=["read"]', field="scopes"
        )
    wanted = list(scopes)
    for scope in wanted:
        if scope not in SCOPES:
            raise InvalidInput(
                f"{excerpt(scope)} is not a scope",
                hint=did_you_mean_one_of(str(scope), SCOPES),
                field="scopes",
            )
    if not wanted:
        raise InvalidInput(
            "a key without scopes opens nothing", hint="name some of: " + ", ".join(SCOPES), field="scopes"
        )
    return tuple(scope for scope in SCOPES if scope in wanted)
