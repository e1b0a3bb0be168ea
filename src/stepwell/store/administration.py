"""Administration: what a store keeps for operators: credentials, the audit list, secrets, its own health."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from stepwell.domain.access import AuditEntry, Credential, CredentialKind
from stepwell.domain.secret import StoredSecret
from stepwell.store.maintenance import StoreFault, StoreSize


class AccessStore(Protocol):
    async def put_credential(self, credential: Credential) -> None:
        """Write a new credential. An existing one stays. Drops sessions and links that expired long ago."""
        ...

    async def read_credential(self, id: str) -> Credential | None:
        """Return the credential with this id, in any workspace."""
        ...

    async def list_credentials(
        self, workspace: str, kind: CredentialKind, *, before: str = "", limit: int = 100
    ) -> Sequence[Credential]:
        """List newest first, including revoked and expired ones; `before` is the last id of a page."""
        ...

    async def revoke_credential(self, id: str, *, at: float, by: str) -> bool:
        """Revoke it. False if there is none, or it was already revoked."""
        ...

    async def mark_used(self, ids: Collection[str], *, at: float) -> None:
        """Note when credentials were last used. The time never goes back."""
        ...

    async def add_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Append to the audit list. The same id counts once."""
        ...

    async def list_audit(self, workspace: str, *, before: str = "", limit: int = 100) -> Sequence[AuditEntry]:
        """List newest first; `before` is the last id of a page."""
        ...


class SecretStore(Protocol):
    async def put_secret(self, secret: StoredSecret) -> bool:
        """Write the next version of its name. False if another version is next."""
        ...

    async def read_secret(self, workspace: str, name: str) -> StoredSecret | None: ...

    async def list_secrets(
        self, workspace: str, *, after: str = "", limit: int = 100
    ) -> Sequence[StoredSecret]:
        """List by name; `after` is the last name of a page."""
        ...

    async def drop_secret(self, workspace: str, name: str) -> bool:
        """Delete it. False if there is none."""
        ...

    async def read_outdated_secrets(self, key: str, *, limit: int = 100) -> Sequence[StoredSecret]:
        """Return the secrets of all workspaces that are sealed with another key."""
        ...

    async def rewrap_secret(self, secret: StoredSecret) -> bool:
        """Replace the sealing key of this version. False if the version is another one, or has that key."""
        ...


class Maintenance(Protocol):
    async def read_size(self) -> StoreSize:
        """Return how many bytes and rows it has. Reads whole tables: for operators, not for programs."""
        ...

    async def find_faults(self) -> Sequence[StoreFault]:
        """Return damaged pages, gaps in logs, and tickets that do not match their runs. Reads everything."""
        ...

    async def find_other_workspace(self, workspace: str) -> str:
        """Return another workspace that has runs, definitions or credentials, or ''."""
        ...

    async def stored_schema(self) -> int:
        """Return the version of its tables before it is opened; 0 if there are none."""
        ...

    async def back_up(self, path: str) -> int:
        """Copy a file as it is at one moment, while others write; return the size of the copy."""
        ...
