"""Credentials and the audit list of the memory store."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from stepwell.domain.access import AuditEntry, Credential, CredentialKind
from stepwell.store.base import CREDENTIALS_KEPT_SECONDS
from stepwell.store.memory.tables import Tables
from stepwell.store.memory.verb import transaction


class MemoryAccess(Tables):
    @transaction("access")
    async def put_credential(self, credential: Credential) -> None:
        self._credentials.setdefault(credential.id, credential)
        for old in list(self._credentials.values()):
            if old.kind != "key" and old.is_expired(credential.created_at - CREDENTIALS_KEPT_SECONDS):
                del self._credentials[old.id]

    async def read_credential(self, id: str) -> Credential | None:
        return self._credentials.get(id)

    async def list_credentials(
        self, workspace: str, kind: CredentialKind, *, before: str = "", limit: int = 100
    ) -> Sequence[Credential]:
        rows = [
            row
            for row in self._credentials.values()
            if (row.workspace, row.kind) == (workspace, kind) and (not before or row.id < before)
        ]
        return sorted(rows, key=lambda row: row.id, reverse=True)[:limit]

    @transaction("access")
    async def revoke_credential(self, id: str, *, at: float, by: str) -> bool:
        row = self._credentials.get(id)
        if row is None or row.revoked_at is not None:
            return False
        self._credentials[id] = replace(row, revoked_at=at, revoked_by=by)
        return True

    @transaction("access")
    async def mark_used(self, ids: Collection[str], *, at: float) -> None:
        for id in ids:
            row = self._credentials.get(id)
            if row is not None:
                self._credentials[id] = replace(row, used_at=max(at, row.used_at or at))

    @transaction("access")
    async def add_audit(self, entries: Sequence[AuditEntry]) -> None:
        for entry in entries:
            self._audit.setdefault(entry.id, entry)

    async def list_audit(self, workspace: str, *, before: str = "", limit: int = 100) -> Sequence[AuditEntry]:
        rows = [
            entry
            for entry in self._audit.values()
            if entry.workspace == workspace and (not before or entry.id < before)
        ]
        return sorted(rows, key=lambda entry: entry.id, reverse=True)[:limit]
