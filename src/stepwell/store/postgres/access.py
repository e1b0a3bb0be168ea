"""Credentials and the audit list of the PostgreSQL store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from stepwell.domain.access import AuditEntry, Credential, CredentialKind
from stepwell.errors import InvalidInput
from stepwell.store.base import CREDENTIALS_KEPT_SECONDS
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused
from stepwell.store.postgres.reads import PgReads


class PgAccess:
    def __init__(self, db: Database, reads: PgReads) -> None:
        self._db = db
        self._reads = reads

    async def put_credential(self, credential: Credential) -> None:
        row = credential
        await self._write(
            "put_credential",
            *(row.id, row.kind, row.workspace, row.name, row.principal, row.digest),
            *(list(row.scopes), list(row.roles), row.key, row.run_id, row.path, row.seq),
            *(row.created_at, row.created_by, row.expires_at, row.created_at - CREDENTIALS_KEPT_SECONDS),
        )

    async def read_credential(self, id: str) -> Credential | None:
        rows = await self._reads.fetch("read_credential", id)
        return _credential(rows[0]) if rows else None

    async def list_credentials(
        self, workspace: str, kind: CredentialKind, *, before: str = "", limit: int = 100
    ) -> Sequence[Credential]:
        rows = await self._reads.fetch("list_credentials", workspace, kind, before, limit)
        return [_credential(row) for row in rows]

    async def revoke_credential(self, id: str, *, at: float, by: str) -> bool:
        return bool(await self._write("revoke_credential", id, at, by))

    async def mark_used(self, ids: Collection[str], *, at: float) -> None:
        await self._write("mark_used", sorted(ids), at)

    async def add_audit(self, entries: Sequence[AuditEntry]) -> None:
        if entries:
            rows = [msgspec.structs.astuple(entry) for entry in entries]
            await self._write("add_audit", *[list(column) for column in zip(*rows, strict=True)])

    async def list_audit(self, workspace: str, *, before: str = "", limit: int = 100) -> Sequence[AuditEntry]:
        rows = await self._reads.fetch("list_audit", workspace, before, limit)
        return [AuditEntry(**dict(row)) for row in rows]

    async def _write(self, name: str, *values: Any) -> list[Any]:
        async def work(connection: Connection) -> list[Any]:
            rows: list[Any] = await connection.fetch(self._db.sql[name], *values)
            return rows

        try:
            return await self._db.write("access", self._db.side_slots, work, single=True)
        except Refused as error:  # e.g. a NUL in a name
            raise InvalidInput(f"PostgreSQL cannot hold this value: {error}") from error


def _credential(row: Any) -> Credential:
    return Credential(**dict(row) | {"scopes": tuple(row["scopes"]), "roles": tuple(row["roles"])})
