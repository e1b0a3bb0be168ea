"""Keys: API keys of a workspace, and the sessions that browsers open with them."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from stepwell.client.store_access import StoreAccess
from stepwell.domain.access import (
    Credential,
    CredentialKind,
    CredentialText,
    checked_scopes,
    digest_of,
)
from stepwell.domain.duration import Duration, timeout_seconds
from stepwell.domain.text import checked_text
from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import InvalidInput, KeyNotFound, excerpt

_ROLES_MAX = 50
_PAGE_MAX = 1000


class NewCredential(NamedTuple):
    """A credential and its text, which is stored nowhere."""

    credential: Credential
    text: str


class Keys:
    """`engine.keys`: who may call a server of this database, and what for."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    async def create(
        self,
        name: str,
        *,
        scopes: Collection[str] = ("read",),
        roles: Collection[str] = (),
        person: bool = False,
        expires: Duration | None = None,
        by: str = "",
    ) -> NewCredential:
        """Create a key for a service or a person; its text is returned here and never again.

        `name` is recorded with everything that is done with the key, and counts as an assignee of approvals,
        as `roles` do. `expires` is how long it is valid; None: until it is revoked.
        """
        if not checked_text(name, "name").strip():
            raise InvalidInput("a key needs the name of who uses it", hint="pass name=", field="name")
        return await issue(
            self._access,
            "key",
            name=name,
            principal="person" if person else "service",
            scopes=checked_scopes(scopes),
            roles=checked_roles(roles),
            expires=timeout_seconds(expires, name="expires"),
            by=by,
        )

    async def list(self, *, before: str = "", limit: int = 100) -> Sequence[Credential]:
        """List the keys of this workspace, newest first; also those that expired or were revoked."""
        count = whole_number(limit, "limit", least=1, most=_PAGE_MAX)
        return await self._access.store.list_credentials(
            self._access.workspace, "key", before=checked_text(before, "before"), limit=count
        )

    async def revoke(self, key: str, *, by: str = "") -> bool:
        """Make a key useless, for servers within a second; False if it was revoked before."""
        store = self._access.store
        row = await store.read_credential(checked_text(key, "key"))
        if row is None or row.kind != "key" or row.workspace != self._access.workspace:
            raise KeyNotFound(f"there is no key {excerpt(key)}")
        return await revoke(self._access, row, by=by)

    async def sign_in(self, key: Credential, *, lasting: float) -> NewCredential:
        """Open a session with a key that was checked; it ends with the key at the latest."""
        now = await self._access.store.now()
        left = lasting if key.expires_at is None else min(lasting, key.expires_at - now)
        return await issue(
            self._access,
            "session",
            name=key.name,
            workspace=key.workspace,
            principal=key.principal,
            key=key.id,
            expires=left,
            by=key.name,
        )

    async def sign_out(self, session: Credential) -> None:
        await revoke(self._access, session, by=session.name)

    # What a server needs

    async def read(self, id: str) -> Credential | None:
        """Return a credential of any workspace: it says itself to which it belongs."""
        return await self._access.store.read_credential(id)

    async def mark_used(self, ids: Collection[str]) -> None:
        at = await self._access.store.now()
        await self._access.call_idempotent(lambda: self._access.store.mark_used(ids, at=at))


async def issue(
    access: StoreAccess, kind: CredentialKind, *, name: str, expires: float | None, by: str, **more: Any
) -> NewCredential:
    """Write a new credential and return its text."""
    now = await access.store.now()
    text = CredentialText(kind, str(access.ids.run_id()), secrets.token_urlsafe(32))
    credential = Credential(
        id=text.id,
        kind=kind,
        name=name,
        digest=digest_of(text.secret),
        created_at=now,
        created_by=checked_text(by, "by"),
        expires_at=None if expires is None else now + expires,
        **{"workspace": access.workspace, **more},
    )
    await access.call_idempotent(lambda: access.store.put_credential(credential))
    return NewCredential(credential, str(text))


async def revoke(access: StoreAccess, credential: Credential, *, by: str) -> bool:
    at = await access.store.now()
    checked_text(by, "by")
    done, repeated = await access.retry_call(
        lambda: access.store.revoke_credential(credential.id, at=at, by=by)
    )
    return done or repeated


def checked_roles(roles: Collection[str]) -> tuple[str, ...]:
    if isinstance(roles, str) or len(roles) > _ROLES_MAX:
        raise InvalidInput(
            f"roles is {excerpt(roles)}",
            hint=f'pass a list of at most {_ROLES_MAX}: roles=["finance"]',
            field="roles",
        )
    return tuple(dict.fromkeys(checked_text(role, "role") for role in roles))
