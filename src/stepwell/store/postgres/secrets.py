"""Secrets of the PostgreSQL store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwell.domain.secret import StoredSecret
from stepwell.errors import InvalidInput
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused
from stepwell.store.postgres.reads import PgReads


class PgSecrets:
    def __init__(self, db: Database, reads: PgReads) -> None:
        self._db = db
        self._reads = reads

    async def put_secret(self, secret: StoredSecret) -> bool:
        row = secret
        return await self._write(
            "put_secret",
            *(row.workspace, row.name, row.version, row.key, row.wrapped, row.body),
            *(row.use, row.header, list(row.hosts), row.created_at, row.created_by),
        )

    async def read_secret(self, workspace: str, name: str) -> StoredSecret | None:
        rows = await self._reads.fetch("read_secret", workspace, name)
        return _secret(rows[0]) if rows else None

    async def list_secrets(
        self, workspace: str, *, after: str = "", limit: int = 100
    ) -> Sequence[StoredSecret]:
        return [_secret(row) for row in await self._reads.fetch("list_secrets", workspace, after, limit)]

    async def drop_secret(self, workspace: str, name: str) -> bool:
        return await self._write("drop_secret", workspace, name)

    async def read_outdated_secrets(self, key: str, *, limit: int = 100) -> Sequence[StoredSecret]:
        return [_secret(row) for row in await self._reads.fetch("read_outdated_secrets", key, limit)]

    async def rewrap_secret(self, secret: StoredSecret) -> bool:
        row = secret
        return await self._write("rewrap_secret", row.workspace, row.name, row.version, row.key, row.wrapped)

    async def _write(self, name: str, *values: Any) -> bool:
        async def work(connection: Connection) -> list[Any]:
            rows: list[Any] = await connection.fetch(self._db.sql[name], *values)
            return rows

        try:
            return bool(await self._db.write("secrets", self._db.side_slots, work, single=True))
        except Refused as error:  # for instance, a NUL in a name
            raise InvalidInput(f"PostgreSQL cannot hold this value: {error}") from error


def _secret(row: Any) -> StoredSecret:
    return StoredSecret(**dict(row) | {"hosts": tuple(row["hosts"])})
