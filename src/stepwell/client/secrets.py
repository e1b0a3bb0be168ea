"""Secrets: values that nodes and steps of a workspace use by name. They can be set, never read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.client.store_access import StoreAccess
from stepwell.domain.secret import (
    StoredSecret,
    checked_hosts,
    checked_secret_name,
    checked_use,
    checked_value,
)
from stepwell.domain.text import checked_text
from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import SecretsKeyMissing
from stepwell.secrets.keyring import Keyring

_PAGE_MAX = 1000
_ROTATED_AT_ONCE = 100


class SecretInfo(NamedTuple):
    """What may be known about a secret: everything but its value."""

    name: str
    version: int
    use: str
    header: str
    hosts: tuple[str, ...]
    key: str  # the name of the key that seals it
    created_at: float
    created_by: str


class Secrets:
    """`engine.secrets`: values that nodes and steps of this workspace use by name."""

    def __init__(self, access: StoreAccess, keyring: Keyring | None) -> None:
        self._access = access
        self._keyring = keyring

    async def set(
        self,
        name: str,
        value: str,
        *,
        hosts: Collection[str] = (),
        use: str = "bearer",
        header: str = "",
        by: str = "",
    ) -> SecretInfo:
        """Seal a value and store it as the next version of its name. Nobody can read it back.

        `hosts` are the hosts to which `http` nodes may send it: `api.example.com`, `*.example.com`, or
        `http://127.0.0.1:8080` for plain HTTP. `use` says how: as a `bearer` token, as `user:password` for
        `basic`, or as the value of a `header`.
        """
        wanted_use, wanted_header = checked_use(use, header)
        text, keyring = checked_value(value), self._required()
        plain = StoredSecret(
            name=checked_secret_name(name),
            version=0,
            key="",
            wrapped=b"",
            body=b"",
            workspace=self._access.workspace,
            use=wanted_use,
            header=wanted_header,
            hosts=checked_hosts(hosts),
            created_at=await self._access.store.now(),
            created_by=checked_text(by, "by"),
        )
        return info_of(await self._put(plain, text, keyring))

    async def _put(self, plain: StoredSecret, value: str, keyring: Keyring) -> StoredSecret:
        store = self._access.store
        while True:
            present = await store.read_secret(plain.workspace, plain.name)
            sealed = keyring.seal(replace(plain, version=(present.version if present else 0) + 1), value)
            written, repeated = await self._access.retry_call(partial(store.put_secret, sealed))
            if written:
                return sealed
            if repeated and await store.read_secret(plain.workspace, plain.name) == sealed:
                return sealed
            # Somebody set it meanwhile: try with the next version.

    async def list(self, *, after: str = "", limit: int = 100) -> Sequence[SecretInfo]:
        """List the secrets of this workspace by name, without their values."""
        count = whole_number(limit, "limit", least=1, most=_PAGE_MAX)
        rows = await self._access.store.list_secrets(
            self._access.workspace, after=checked_text(after, "after"), limit=count
        )
        return [info_of(row) for row in rows]

    async def delete(self, name: str, *, by: str = "") -> bool:
        """Delete a secret. Workers stop using it within seconds. False if there is none."""
        checked_text(by, "by")
        store, workspace = self._access.store, self._access.workspace
        wanted = checked_secret_name(name)
        done, repeated = await self._access.retry_call(lambda: store.drop_secret(workspace, wanted))
        return done or repeated

    async def rotate(self) -> int:
        """Seal with the current key what older keys seal, in all workspaces; return how many changed.

        To rotate, put the new key first and keep the old one, restart every process, rotate, then remove
        the old key.
        """
        store, keyring, count = self._access.store, self._required(), 0
        while rows := await store.read_outdated_secrets(keyring.current, limit=_ROTATED_AT_ONCE):
            for row in rows:
                sealed = keyring.rewrap(row)
                await self._access.retry_call(partial(store.rewrap_secret, sealed))
                count += 1
        return count

    def _required(self) -> Keyring:
        if self._keyring is None:
            raise SecretsKeyMissing("this process has no key for secrets")
        return self._keyring


def info_of(secret: StoredSecret) -> SecretInfo:
    return SecretInfo(
        secret.name,
        secret.version,
        secret.use,
        secret.header,
        secret.hosts,
        secret.key,
        secret.created_at,
        secret.created_by,
    )
