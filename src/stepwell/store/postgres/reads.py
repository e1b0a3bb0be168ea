"""Reading: what runs, tickets and workers look like, and the definitions of workflows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepwell.domain.commit import Definition, LogRow, RunFilter, RunRow, TicketRow, WorkerRow
from stepwell.domain.ids import RunId, WorkerId
from stepwell.domain.status import Status
from stepwell.errors import InvalidInput
from stepwell.store.base import BATCH_MEMBERS_MAX
from stepwell.store.postgres.database import Session
from stepwell.store.postgres.pool.batcher import Batcher
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused

MARK = "/* more */"


Named = tuple[str, str, str]  # workspace, name, version


class PostgresReading(Session):
    def __init__(self, dsn: str, *, clock: Callable[[], float] | None = None) -> None:
        super().__init__(dsn, clock=clock)
        self._defined = Batcher[Named, Definition | None](self._read_definitions, BATCH_MEMBERS_MAX)

    async def _fetch(self, name: str, *arguments: Any) -> list[Any]:
        return await self._fetch_text(self._sql[name], *arguments)

    async def _fetch_text(self, text: str, *arguments: Any) -> list[Any]:
        async def work(connection: Connection) -> list[Any]:
            rows: list[Any] = await connection.fetch(text, *arguments)
            return rows

        try:
            return await self._side_lanes.read(work)
        except Refused as error:  # e.g. a NUL in an id: it cannot be there
            raise InvalidInput(f"PostgreSQL cannot compare with this value: {error}") from error

    async def now(self) -> float:
        return float((await self._fetch("now", self._now()))[0][0])

    async def read_log(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> Sequence[LogRow]:
        return [LogRow(*row) for row in await self._fetch("read_log", run_id, after, limit)]

    async def read_log_end(self, run_id: RunId, *, count: int = 1) -> Sequence[LogRow]:
        return [LogRow(*row) for row in reversed(await self._fetch("read_log_end", run_id, count))]

    async def read_run(self, run_id: RunId) -> RunRow | None:
        rows = await self._fetch("read_run", run_id)
        return _run_row(rows[0]) if rows else None

    async def find_run(self, workspace: str, key: str) -> RunId | None:
        rows = await self._fetch("find_run", workspace, key)
        return RunId(rows[0][0]) if rows else None

    async def list_runs(self, filter: RunFilter) -> Sequence[RunRow]:
        arguments: list[Any] = [filter.workspace, filter.limit, [str(status) for status in filter.statuses]]
        more = ""
        for condition, value in (
            ("r.workflow =", filter.workflow),
            ("r.key <> '' AND r.key =", filter.key),
            ("r.parent <> '' AND r.parent =", filter.parent),
            ("r.id <", filter.before),
        ):
            if value:
                arguments.append(value)
                more += f" AND {condition} ${len(arguments)}"
        text = self._sql["list_runs"].replace(MARK, more)
        return [_run_row(row) for row in await self._fetch_text(text, *arguments)]

    async def read_tickets(self, run_id: RunId) -> Sequence[TicketRow]:
        return [_ticket_row(row) for row in await self._fetch("read_tickets", run_id)]

    async def list_others(self, queues: Sequence[str], needs: Sequence[str]) -> Sequence[TicketRow]:
        return [_ticket_row(row) for row in await self._fetch("list_others", list(queues), list(needs))]

    async def list_workers(self) -> Sequence[WorkerRow]:
        return [
            WorkerRow(
                id=WorkerId(row["id"]),
                name=row["name"],
                queues=tuple(row["queues"]),
                needs=tuple(row["needs"]),
                lease_until=row["lease_until"],
            )
            for row in await self._fetch("list_workers")
        ]

    async def put_definitions(self, definitions: Sequence[Definition]) -> None:
        last: dict[tuple[str, str, str], Definition] = {}
        for d in definitions:
            last.pop((d.workspace, d.name, d.version), None)
            last[d.workspace, d.name, d.version] = d
        rows = [
            (d.workspace, d.name, d.version, d.kind, d.hash, d.body, d.input_schema, d.options)
            for d in last.values()
        ]

        async def work(connection: Connection) -> None:
            await connection.execute(
                self._sql["put_definitions"], *[list(column) for column in zip(*rows, strict=True)]
            )

        try:
            if rows:
                await self._write("define", self._side_lanes, work, single=True)
        except Refused as error:
            raise InvalidInput(f"PostgreSQL cannot hold this definition: {error}") from error

    async def swap_definition(self, definition: Definition, *, expected: str) -> bool:
        d = definition
        row = (d.workspace, d.name, d.version, d.kind, d.hash, d.body, d.input_schema, d.options)

        async def work(connection: Connection) -> bool:
            return bool(await connection.fetchval(self._sql["swap_definition"], *row, expected))

        try:
            swapped = await self._write("define", self._side_lanes, work, single=True)
        except Refused as error:
            raise InvalidInput(f"PostgreSQL cannot hold this definition: {error}") from error
        return swapped or await self.read_definition(d.workspace, d.name, d.version) == d

    async def read_definition(self, workspace: str, name: str, version: str = "") -> Definition | None:
        return (await self._defined.ask([(workspace, name, version)]))[0]

    async def _read_definitions(self, asked: Sequence[Named]) -> Sequence[Definition | None]:
        """Starts by name ask for the same one again and again: those who ask together read it once."""

        async def work(connection: Connection) -> dict[Named, Definition | None]:
            found: dict[Named, Definition | None] = {}
            for named in dict.fromkeys(asked):
                rows = await connection.fetch(self._sql["read_definition"], *named)
                found[named] = Definition(**dict(rows[0])) if rows else None
            return found

        found = await self._side_lanes.read(work, own_task=True)
        return [found[named] for named in asked]

    async def drop_definitions(self, workspace: str, *names: str) -> int:
        async def work(connection: Connection) -> int:
            return len(await connection.fetch(self._sql["drop_definitions"], workspace, list(names)))

        return await self._write("define", self._side_lanes, work, single=True)

    async def list_definitions(self, workspace: str) -> Sequence[Definition]:
        return [Definition(**dict(row)) for row in await self._fetch("list_definitions", workspace)]

    async def read_codec_check(self) -> bytes | None:
        rows = await self._fetch("read_codec_check")
        return rows[0][0] if rows else None

    async def write_codec_check(self, value: bytes, *, expected: bytes | None) -> bool:
        async def work(connection: Connection) -> bool:
            return bool(await connection.fetchval(self._sql["write_codec_check"], value, expected))

        return await self._write("codec_check", self._side_lanes, work, single=True)


def _ticket_row(row: Any) -> TicketRow:
    return TicketRow(**dict(row) | {"owner": row["owner"] or "", "lease": row["lease"] or ""})


def _run_row(row: Any) -> RunRow:
    return RunRow(**dict(row) | {"status": Status(row["status"])})
