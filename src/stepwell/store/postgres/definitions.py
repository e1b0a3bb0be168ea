"""Definitions of workflows, and the codec check: the records that belong to no run."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.commit import Definition, WorkflowSwitch
from stepwell.errors import InvalidInput
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused
from stepwell.store.postgres.reads import PgReads

DefinitionKey = tuple[str, str, str]  # workspace, name, version


class PgDefinitions:
    def __init__(self, db: Database, reads: PgReads) -> None:
        self._db = db
        self._sql = db.sql
        self._reads = reads

    async def put_definitions(self, definitions: Sequence[Definition]) -> None:
        last: dict[DefinitionKey, Definition] = {}
        for d in definitions:
            last.pop((d.workspace, d.name, d.version), None)
            last[d.workspace, d.name, d.version] = d
        rows = [_row(d) for d in last.values()]

        async def work(connection: Connection) -> None:
            columns = [list(column) for column in zip(*rows, strict=True)]
            await connection.execute(self._sql["put_definitions"], *columns, self._db.now())

        try:
            if rows:
                await self._db.write("define", self._db.side_slots, work, single=True)
        except Refused as error:
            raise InvalidInput(f"PostgreSQL cannot hold this definition: {error}") from error

    async def swap_definition(self, definition: Definition, *, expected: str) -> bool:
        values = (*_row(definition), expected, self._db.now())

        async def work(connection: Connection) -> bool:
            return bool(await connection.fetchval(self._sql["swap_definition"], *values))

        try:
            swapped = await self._db.write("define", self._db.side_slots, work, single=True)
        except Refused as error:
            raise InvalidInput(f"PostgreSQL cannot hold this definition: {error}") from error
        if swapped:
            return True
        [current] = await self.read_definitions([(definition.workspace, definition.name, definition.version)])
        return current is not None and current.content == definition.content

    async def read_definitions(self, keys: Sequence[DefinitionKey]) -> Sequence[Definition | None]:
        """Read each key once: starts by name ask for the same definition again and again."""

        async def work(connection: Connection) -> dict[DefinitionKey, Definition | None]:
            definitions: dict[DefinitionKey, Definition | None] = {}
            for key in dict.fromkeys(keys):
                rows = await connection.fetch(self._sql["read_definition"], *key)
                definitions[key] = Definition(**dict(rows[0])) if rows else None
            return definitions

        definitions = await self._db.side_slots.read(work, own_task=True)
        return [definitions[key] for key in keys]

    async def drop_definitions(self, workspace: str, *names: str) -> int:
        async def work(connection: Connection) -> int:
            return len(await connection.fetch(self._sql["drop_definitions"], workspace, list(names)))

        return await self._db.write("define", self._db.side_slots, work, single=True)

    async def list_definitions(self, workspace: str, *names: str) -> Sequence[Definition]:
        if names:
            rows = await self._reads.fetch("list_named_definitions", workspace, list(names))
        else:
            rows = await self._reads.fetch("list_definitions", workspace)
        return [Definition(**dict(row)) for row in rows]

    async def switch(self, switch: WorkflowSwitch) -> bool:
        async def work(connection: Connection) -> bool:
            values = (self._db.now(), *switch[:5])
            return bool(await connection.fetchval(self._sql["switch"], *values))

        try:
            return await self._db.write("switch", self._db.side_slots, work, single=True)
        except Refused as error:
            raise InvalidInput(f"PostgreSQL cannot hold this name or reason: {error}") from error

    async def list_switches(self, workspace: str) -> Sequence[WorkflowSwitch]:
        return [WorkflowSwitch(*row) for row in await self._reads.fetch("list_switches", workspace)]

    async def read_codec_check(self) -> bytes | None:
        rows = await self._reads.fetch("read_codec_check")
        return rows[0][0] if rows else None

    async def write_codec_check(self, value: bytes, *, expected: bytes | None) -> bool:
        async def work(connection: Connection) -> bool:
            return bool(await connection.fetchval(self._sql["write_codec_check"], value, expected))

        return await self._db.write("codec_check", self._db.side_slots, work, single=True)


def _row(d: Definition) -> tuple[object, ...]:
    texts = (d.title, d.description, d.created_by)
    return (d.workspace, d.name, d.version, d.kind, d.hash, d.body, d.input_schema, d.options, *texts)
