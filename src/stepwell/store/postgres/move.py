"""PgTarget: an empty database that a SQLite file is moved to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from stepwell.errors import StepwellError, StoreMoved, StoreUnusable
from stepwell.store import queries
from stepwell.store.move import RunBatch, TableRows
from stepwell.store.postgres.database import PACKAGE, in_schema
from stepwell.store.postgres.migrate import prepare
from stepwell.store.postgres.pool.connection import ENGINE_SETTINGS, USER_SETTINGS, Connection, connect
from stepwell.store.postgres.pool.dsn import parse
from stepwell.store.postgres.pool.errors import translated

Convert = Callable[[Any], Any]


class PgTarget:
    def __init__(self, dsn: str) -> None:
        self._address = parse(dsn)
        self._schema = self._address.schema
        self.place = self._address.plain
        self._connection: Connection | None = None
        self._types: dict[str, dict[str, Convert]] = {}
        texts = queries.load(PACKAGE, "move")
        self._sql = {name: in_schema(text, self._schema) for name, text in texts.items()}

    async def open(self, token: str, source: str) -> bool:
        engine = await connect(self._address, ENGINE_SETTINGS)
        try:
            await prepare(engine, self._address, receiving=True)
        finally:
            await engine.close()
        self._connection = await connect(self._address, USER_SETTINGS)
        try:
            mark = await self._fetch("read_mark")
            if mark and mark[0]["token"] == token:
                return bool(mark[0]["state"] == "received")
            if mark and mark[0]["state"] == "receiving":
                raise StoreMoved(
                    f"the database is being filled from {mark[0]['place']}",
                    hint="finish that move first, or name another database or ?schema=",
                    database=self.place,
                )
            used = await self._fetch("in_use")
            if used:
                raise StoreUnusable(
                    f"the target is in use: it has {', '.join(row['what'] for row in used)}",
                    hint="name an empty database, or add ?schema=name for a schema of its own",
                    database=self.place,
                )
            await self._fetch("mark_receiving", token, source)
            return False
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def last_run(self) -> str:
        [row] = await self._fetch("last_run")
        return str(row[0])

    async def count_runs(self) -> int:
        [row] = await self._fetch("count_runs")
        return int(row[0])

    async def put_whole(self, table: str, rows: TableRows) -> None:
        connection = self._open_connection
        try:
            async with connection.transaction():
                await connection.execute(f'DELETE FROM "{self._schema}".{table}')
                await self._copy(table, rows)
        except Exception as error:
            raise self._failed(error, table) from error

    async def add(self, table: str, rows: TableRows) -> None:
        try:
            await self._copy(table, rows)
        except Exception as error:
            raise self._failed(error, table) from error

    async def put_batch(self, batch: RunBatch) -> None:
        try:
            async with self._open_connection.transaction():
                for table, rows in batch.tables.items():
                    await self._copy(table, rows)
        except Exception as error:
            raise self._failed(error, f"runs up to {batch.last}") from error

    async def finish(self, tickets: TableRows) -> None:
        connection = self._open_connection
        try:
            async with connection.transaction():
                await self._copy("tickets", tickets)
                await connection.execute(self._sql["fill_event_names"])
                await connection.execute(self._sql["mark_received"])
        except Exception as error:
            raise self._failed(error, "the end of the move") from error
        await connection.execute("ANALYZE")

    async def _copy(self, table: str, rows: TableRows) -> None:
        if not rows.rows:
            return
        types = await self._columns(table)
        unknown = [name for name in rows.columns if name not in types]
        if unknown:
            raise StoreUnusable(f"the target's {table} has no column {', '.join(unknown)}")
        convert = [types[name] for name in rows.columns]
        await self._open_connection.copy_records_to_table(
            table,
            schema_name=self._schema,
            columns=list(rows.columns),
            records=[[to(value) for to, value in zip(convert, row, strict=True)] for row in rows.rows],
        )

    async def _columns(self, table: str) -> dict[str, Convert]:
        """How to write each column that can be written."""
        if table not in self._types:
            rows = await self._fetch("list_columns", self._schema, table)
            self._types[table] = {row[0]: _CONVERT.get(row[1], _as_it_is) for row in rows}
        return self._types[table]

    async def _fetch(self, name: str, *values: Any) -> list[Any]:
        try:
            rows: list[Any] = await self._open_connection.fetch(self._sql[name], *values)
        except Exception as error:
            raise self._failed(error, "the target") from error
        return rows

    @property
    def _open_connection(self) -> Connection:
        assert self._connection is not None, "open it first"
        return self._connection

    def _failed(self, error: Exception, what: str) -> Exception:
        if isinstance(error, StepwellError):
            return error
        failure = translated(error, self.place)
        if isinstance(failure, StepwellError):
            failure.context["moving"] = what
        return failure


def _as_it_is(value: Any) -> Any:
    return value


def _optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


_CONVERT: dict[str, Convert] = {
    "boolean": _optional(bool),
    "double precision": _optional(float),
    "ARRAY": _optional(lambda text: msgspec.json.decode(text, type=list[str])),
}
