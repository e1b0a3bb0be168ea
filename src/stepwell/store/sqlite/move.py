"""SqliteSource: a database file that is moved away."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import islice
from typing import Any, TypeVar

import apsw

from stepwell.errors import StoreMoved, StoreUnavailable, StoreUnusable
from stepwell.store import queries
from stepwell.store.move import RUN_TABLES, Counts, RunBatch, TableRows
from stepwell.store.sqlite import database_file
from stepwell.store.sqlite.session import as_list

T = TypeVar("T")

_SQL = queries.load("stepwell.store.sqlite", "move")
_NOT_CARRIED = {"definitions": {"n"}, "codec_check": {"id"}}  # PostgreSQL numbers these rows itself
_ORDER = {"definitions": "n"}


class SqliteSource:
    def __init__(
        self, path: str, *, new_token: Callable[[], str], clock: Callable[[], float] = time.time
    ) -> None:
        self.place = os.path.abspath(path)
        self._new_token = new_token
        self._clock = clock
        self._connection: apsw.Connection | None = None
        self._is_new = False  # marked by this call

    async def open(self, target: str) -> str:
        return await asyncio.to_thread(self._open, target)

    def _open(self, target: str) -> str:
        if not os.path.exists(self.place):
            raise StoreUnusable("there is no such file", hint="name the database file", path=self.place)
        self._connection = connection = database_file.open_writer(self.place, moving=True)
        try:
            _seize(connection, self.place)
            row = connection.execute(_SQL["read_mark"]).get
            self._is_new = row is None
            if row is None:
                token = self._new_token()
                connection.execute(_SQL["mark_moving"], (token, target, self._clock()))
                return token
            token, place = row
            if place != target:
                raise StoreMoved(
                    f"the database is on its way to {place}",
                    hint=f"move it there: stepwell move {self.place} {place}",
                    path=self.place,
                )
            return str(token)
        except BaseException:
            connection.close(True)
            self._connection = None
            raise

    async def close(self) -> None:
        if self._connection is not None:
            await asyncio.to_thread(self._connection.close)
            self._connection = None

    async def unmark(self) -> None:
        if self._is_new:
            await self._rows(_SQL["unmark"])

    async def mark_moved(self) -> None:
        await self._rows(_SQL["mark_moved"], self._clock())

    async def tables(self) -> Sequence[str]:
        return [row[0] for row in await self._rows(_SQL["list_tables"])]

    async def count(self, after: str) -> Counts:
        [row] = await self._rows(_SQL["count_all"], after)
        return Counts(*row)

    async def whole(self, table: str) -> TableRows:
        return await asyncio.to_thread(self._read, table, "", ())

    async def parts(self, table: str, rows: int) -> AsyncIterator[TableRows]:
        assert self._connection is not None
        columns, text = await asyncio.to_thread(self._select, table, "")
        cursor = await asyncio.to_thread(self._connection.cursor().execute, text)
        while part := await asyncio.to_thread(lambda: list(islice(cursor, rows))):
            yield TableRows(columns, part)

    async def batch(self, after: str, runs: int) -> RunBatch | None:
        return await asyncio.to_thread(self._batch, after, runs)

    def _batch(self, after: str, runs: int) -> RunBatch | None:
        page = self._read("runs", "WHERE id > ? ORDER BY id LIMIT ?", (after, runs))
        if not page.rows:
            return None
        ids = [row[page.columns.index("id")] for row in page.rows]
        tables = {"runs": page}
        present = {row[0] for row in self._all(_SQL["list_tables"])}
        for table in RUN_TABLES:
            if table in present:
                where = "WHERE run_id IN (SELECT value FROM json_each(?))"
                tables[table] = self._read(table, where, (as_list(ids),))
        tables["tickets"] = self._freed(tables["tickets"])
        return RunBatch(ids[-1], len(ids), tables)

    async def loose_tickets(self) -> TableRows:
        where = "WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = tickets.run_id)"
        return self._freed(await asyncio.to_thread(self._read, "tickets", where, ()))

    def _freed(self, tickets: TableRows) -> TableRows:
        """Remove owners: their processes are stopped. The next owner records the lost lease."""
        columns, now = list(tickets.columns), self._clock()
        rows = []
        for values in tickets.rows:
            row = dict(zip(columns, values, strict=True))
            if row["lease"] is not None:
                row["lost_lease"] = row["lost_lease"] or row["lease"]
                row |= {"owner": None, "lease": None, "due_at": min(row["due_at"], now)}
            rows.append(list(row.values()))
        return TableRows(columns, rows)

    def _read(self, table: str, where: str, values: Sequence[Any]) -> TableRows:
        columns, text = self._select(table, where)
        return TableRows(columns, self._all(text, *values))

    def _select(self, table: str, where: str) -> tuple[Sequence[str], str]:
        names = [row[0] for row in self._all(_SQL["list_columns"], table)]
        columns = [name for name in names if name not in _NOT_CARRIED.get(table, ())]
        listed = ", ".join(f'"{name}"' for name in columns)
        order = f"ORDER BY {_ORDER[table]}" if table in _ORDER else ""
        return columns, f"SELECT {listed} FROM {table} {where} {order}"

    async def _rows(self, sql: str, *values: Any) -> list[Any]:
        return await asyncio.to_thread(self._all, sql, *values)

    def _all(self, sql: str, *values: Any) -> list[Any]:
        assert self._connection is not None
        rows: list[Any] = self._connection.execute(sql, values).fetchall()
        return rows


def _seize(connection: apsw.Connection, path: str) -> None:
    """Lock the whole file until it is closed. Refuse if another process has it open."""
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except apsw.BusyError:
        raise StoreUnavailable(
            "a process has the database open",
            hint=f"stop all engines and servers on it first; `lsof {path}` names them",
            path=path,
        ) from None
