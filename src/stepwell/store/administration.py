"""Administration: what a store keeps for operators: credentials, the audit list, secrets, its own health."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from stepwell.domain.access import AuditEntry, Credential, CredentialKind
from stepwell.domain.secret import StoredSecret
from stepwell.store.maintenance import StoreFault, StoreSize


class AccessStore(Protocol):
    async def put_credential(self, credential: Credential) -> None:
        """Write it; one that is there is not replaced. Drops sessions and links that expired long ago."""
        ...

    async def read_credential(self, id: str) -> Credential | None:
        """That credential, of whatever workspace it is."""
        ...

    async def list_credentials(
        self, workspace: str, kind: CredentialKind, *, before: str = "", limit: int = 100
    ) -> Sequence[Credential]:
        """Newest first, also those that were revoked or expired; `before` is the last id of a page."""
        ...

    async def revoke_credential(self, id: str, *, at: float, by: str) -> bool:
        """False: there is none, or it was revoked before."""
        ...

    async def mark_used(self, ids: Collection[str], *, at: float) -> None:
        """Note when they were last used; the time never goes back."""
        ...

    async def add_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Append to the audit list; the same id counts once."""
        ...

    async def list_audit(self, workspace: str, *, before: str = "", limit: int = 100) -> Sequence[AuditEntry]:
        """Newest first; `before` is the last id of a page."""
        ...


class SecretStore(Protocol):
    async def put_secret(self, secret: StoredSecret) -> bool:
        """Write the next version of its name; False: that is not the next one."""
        ...

    async def read_secret(self, workspace: str, name: str) -> StoredSecret | None: ...

    async def list_secrets(
        self, workspace: str, *, after: str = "", limit: int = 100
    ) -> Sequence[StoredSecret]:
        """By name; `after` is the last name of a page."""
        ...

    async def drop_secret(self, workspace: str, name: str) -> bool:
        """False: there is none."""
        ...

    async def read_outdated_secrets(self, key: str, *, limit: int = 100) -> Sequence[StoredSecret]:
        """Those of all workspaces that are sealed with another key."""
        ...

    async def rewrap_secret(self, secret: StoredSecret) -> bool:
        """Replace the key of this version and what it seals; False: another version, or that key already."""
        ...


class Maintenance(Protocol):
    async def read_size(self) -> StoreSize:
        """How many bytes and rows it has. Reads whole tables: for operators, not for programs."""
        ...

    async def find_faults(self) -> Sequence[StoreFault]:
        """What cannot be so: damaged pages, gaps in logs, tickets that do not fit. Reads everything."""
        ...

    async def find_other_workspace(self, workspace: str) -> str:
        """The name of another workspace that has runs, definitions or credentials; '' if there is none."""
        ...

    async def stored_schema(self) -> int:
        """The version of its tables before it is opened; 0: there are none."""
        ...

    async def back_up(self, path: str) -> int:
        """Copy a file as it is at one moment, while others write; returns the size of the copy."""
        ...
