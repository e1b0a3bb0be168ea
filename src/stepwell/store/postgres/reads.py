"""Reads: rows of runs, logs, tickets and workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stepwell.domain.commit import DrainRequest, LogRow, RunRow, TicketRow, WorkerRow
from stepwell.domain.ids import RunId, WorkerId
from stepwell.domain.queues import QueueUse
from stepwell.domain.status import Status
from stepwell.errors import InvalidInput
from stepwell.store.base import SchemaVersion
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.migrate import newest
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused


class PgReads:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._sql = db.sql

    async def fetch(self, name: str, *arguments: Any) -> list[Any]:
        return await self.fetch_text(self._sql[name], *arguments)

    async def fetch_text(self, text: str, *arguments: Any) -> list[Any]:
        async def work(connection: Connection) -> list[Any]:
            rows: list[Any] = await connection.fetch(text, *arguments)
            return rows

        try:
            return await self._db.side_slots.read(work)
        except Refused as error:  # e.g. a NUL in an id: no stored value has one
            raise InvalidInput(f"PostgreSQL cannot compare with this value: {error}") from error

    async def now(self) -> float:
        return float((await self.fetch("now", self._db.now()))[0][0])

    async def read_log(
        self,
        run_id: RunId,
        *,
        after: int = 0,
        limit: int = 1000,
        bytes_max: int | None = None,
        kinds: Sequence[str] = (),
        path: str = "",
    ) -> Sequence[LogRow]:
        if kinds or path:
            rows = await self.fetch("read_log_about", run_id, after, limit, list(kinds), path)
            return [LogRow(*row) for row in rows]
        if bytes_max is not None:
            rows = await self.fetch("read_log_within", run_id, after, limit, bytes_max)
            return [LogRow(*row) for row in rows]
        return [LogRow(*row) for row in await self.fetch("read_log", run_id, after, limit)]

    async def read_log_end(self, run_id: RunId, *, count: int = 1) -> Sequence[LogRow]:
        return [LogRow(*row) for row in reversed(await self.fetch("read_log_end", run_id, count))]

    async def read_run(self, run_id: RunId) -> RunRow | None:
        rows = await self.fetch("read_run", run_id)
        return run_row(rows[0]) if rows else None

    async def find_run(self, workspace: str, key: str) -> RunId | None:
        rows = await self.fetch("find_run", workspace, key)
        return RunId(rows[0][0]) if rows else None

    async def read_schema(self) -> SchemaVersion:
        stored = int((await self.fetch("read_schema"))[0][0])
        return SchemaVersion(stored, newest())

    async def read_queues(self, workspace: str, *, now: float) -> Sequence[QueueUse]:
        return [QueueUse(*row) for row in await self.fetch("read_queues", workspace, now)]

    async def read_tickets(self, run_id: RunId) -> Sequence[TicketRow]:
        return [_ticket_row(row) for row in await self.fetch("read_tickets", run_id)]

    async def list_others(self, queues: Sequence[str], needs: Sequence[str]) -> Sequence[TicketRow]:
        return [_ticket_row(row) for row in await self.fetch("list_others", list(queues), list(needs))]

    async def list_workers(self) -> Sequence[WorkerRow]:
        return [
            WorkerRow(
                id=WorkerId(row["id"]),
                name=row["name"],
                queues=tuple(row["queues"]),
                needs=tuple(row["needs"]),
                lease_until=row["lease_until"],
                leaving=row["leaving"],
                draining=None
                if row["drain"] is None
                else msgspec.json.decode(row["drain"], type=DrainRequest),
            )
            for row in await self.fetch("list_workers")
        ]


def _ticket_row(row: Any) -> TicketRow:
    return TicketRow(**dict(row) | {"owner": row["owner"] or "", "lease": row["lease"] or ""})


def run_row(row: Any) -> RunRow:
    return RunRow(**dict(row) | {"status": Status(row["status"])})
