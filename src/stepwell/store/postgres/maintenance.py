"""Maintenance of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from stepwell.errors import InvalidRequest
from stepwell.store.maintenance import FAULTS_MAX, StoreFault, StoreSize
from stepwell.store.postgres.database import Database, roll_back
from stepwell.store.postgres.migrate import applied
from stepwell.store.postgres.pool.connection import ENGINE_SETTINGS, Connection, connect
from stepwell.store.postgres.pool.slots import Work
from stepwell.store.postgres.reads import PgReads

T = TypeVar("T")

_CHECKS = ("gaps", "wrong_heads", "wrong_tickets", "leftovers")
_SECONDS = 3600.0


class PgMaintenance:
    def __init__(self, db: Database, reads: PgReads) -> None:
        self._db = db
        self._reads = reads

    async def read_size(self) -> StoreSize:
        async def work(connection: Connection) -> StoreSize:
            size = await connection.fetchval(self._db.sql["schema_bytes"], self._db.address.schema)
            rows = await connection.fetch(self._db.sql["count_tables"], timeout=_SECONDS)
            return StoreSize(int(size), {row[0]: int(row[1]) for row in rows})

        return await self._unlimited(work)

    async def find_faults(self) -> Sequence[StoreFault]:
        async def work(connection: Connection) -> list[StoreFault]:
            faults: list[StoreFault] = []
            for check in _CHECKS:
                rows = await connection.fetch(self._db.sql[check], FAULTS_MAX, timeout=_SECONDS)
                faults += [StoreFault(*row) for row in rows]
            return faults

        return await self._unlimited(work)

    async def find_other_workspace(self, workspace: str) -> str:
        rows = await self._reads.fetch("find_other_workspace", workspace)
        return str(rows[0][0] or "")

    async def _unlimited(self, work: Work[T]) -> T:
        async def snapshot(connection: Connection) -> T:
            await connection.execute(self._db.sql["begin_snapshot"])
            try:
                await connection.fetch(self._db.sql["unlimited"])
                return await work(connection)
            finally:
                await roll_back(connection)

        return await self._db.side_slots.read(snapshot)

    async def stored_schema(self) -> int:
        connection = await connect(self._db.address, ENGINE_SETTINGS)
        try:
            return await applied(connection, self._db.address)
        finally:
            await connection.close()

    async def back_up(self, path: str) -> int:
        raise InvalidRequest(
            "PostgreSQL is backed up with its own tools",
            hint='pg_dump --format=custom --file=backup.dump "$STEPWELL_DATABASE"',
        )
