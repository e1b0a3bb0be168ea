"""A named SQLite file: one connection, in a thread while it works."""

from __future__ import annotations

import asyncio
import base64
import math
import threading
from typing import Any

import apsw

from stepwell.databases.errors import (
    QueryError,
    ResultSize,
    check_columns,
    too_many_bytes,
    too_many_rows,
)
from stepwell.databases.statement import Statement

# What a statement must not do whatever it says: reach other files, load code, change the connection. A table
# of the connection's own would hide that of the file from every later query.
_FORBIDDEN = frozenset(
    (
        *(apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH, apsw.SQLITE_PRAGMA),
        *(apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT),
        *(apsw.SQLITE_CREATE_TEMP_TABLE, apsw.SQLITE_CREATE_TEMP_VIEW),
        *(apsw.SQLITE_CREATE_TEMP_INDEX, apsw.SQLITE_CREATE_TEMP_TRIGGER),
    )
)
_FUNCTIONS = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})
_BUSY_MILLISECONDS = 5000
_VALUE_MAX = 64 * 1024 * 1024  # bytes of one value or row, also of those that a statement makes
_STOP_SECONDS = 0.05  # between two tries: a statement that has not begun cannot be interrupted


class SqliteDatabase:
    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = asyncio.Lock()
        self._connections: dict[bool, apsw.Connection] = {}

    async def query(
        self, statement: Statement, params: dict[str, Any], *, rows_max: int, seconds: float, read_only: bool
    ) -> dict[str, Any]:
        statement.values(params)
        check_params(params)
        async with self._lock:
            connection = self._opened(read_only)
            clock = threading.Timer(seconds, connection.interrupt)
            clock.start()
            loop = asyncio.get_running_loop()
            work = loop.run_in_executor(None, _run, connection, statement, params, rows_max)
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                await _stopped(connection, work)
                raise
            except (apsw.Error, KeyError) as error:
                raise translated(error, seconds) from None
            finally:
                clock.cancel()

    def _opened(self, read_only: bool) -> apsw.Connection:
        if read_only not in self._connections:
            flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
            try:
                connection = apsw.Connection(self._path, flags=flags)
            except apsw.Error as error:
                raise QueryError(
                    "SQL_CONNECT", f"the file cannot be opened: {error}", permanent=False
                ) from None
            connection.set_busy_timeout(_BUSY_MILLISECONDS)
            connection.set_authorizer(_allowed)
            connection.limit(apsw.SQLITE_LIMIT_LENGTH, _VALUE_MAX)
            self._connections[read_only] = connection
        return self._connections[read_only]

    async def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


async def _stopped(connection: apsw.Connection, work: asyncio.Future[Any]) -> None:
    """Let nobody have the connection before the thread has left it; a statement may never end by itself."""
    while not work.done():
        connection.interrupt()
        await asyncio.wait({work}, timeout=_STOP_SECONDS)
    if not work.cancelled():
        work.exception()


def _allowed(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    called = action == apsw.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS
    return apsw.SQLITE_DENY if action in _FORBIDDEN or called else apsw.SQLITE_OK


def _run(
    connection: apsw.Connection, statement: Statement, params: dict[str, Any], rows_max: int
) -> dict[str, Any]:
    before = connection.total_changes()
    cursor = connection.cursor()
    try:
        cursor.execute(statement.text, params)
        names, rows = rows_of(cursor, rows_max)
    finally:
        cursor.close(force=True)
    return {"rows": rows, "count": len(rows) if names else connection.total_changes() - before}


def check_params(params: dict[str, Any]) -> None:
    for name, value in params.items():
        if isinstance(value, list | dict) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
            raise QueryError("SQL_PARAMS", f"the parameter {name} is not text, a number or null")


def rows_of(cursor: apsw.Cursor, rows_max: int) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the names of the columns, and the rows as JSON; no names: the statement gives none."""
    names = [column[0] for column in cursor.get_description()] if _has_rows(cursor) else []
    check_columns(names)
    rows: list[dict[str, Any]] = []
    size = ResultSize()
    for row in cursor:
        if len(rows) == rows_max:
            raise too_many_rows(rows_max)
        size.add(row)
        rows.append({name: _value(value) for name, value in zip(names, row, strict=True)})
    return names, rows


def translated(error: Exception, seconds: float) -> QueryError:
    match error:
        case KeyError():
            return QueryError(
                "SQL_PARAMS",
                f"the statement has the parameter {error.args[0]}, which is not written :name",
                hint="write :name in the statement, and give the value in params",
            )
        case apsw.InterruptError():
            return QueryError("SQL_TIMEOUT", f"the query took longer than {seconds:g} s", permanent=False)
        case apsw.ReadOnlyError():
            hint = "set readOnly to false if the node may write"
            return QueryError("SQL_READ_ONLY", str(error), hint=hint)
        case apsw.TooBigError():
            return too_many_bytes()
        case apsw.BusyError():
            return QueryError("SQL_CONNECT", "the file is locked", permanent=False)
        case apsw.AuthError():
            message = "the statement would change the connection, or reach other files or tables of ours"
            return QueryError("SQL_FORBIDDEN", message)
    return QueryError("SQL_ERROR", str(error)[:500])


def _has_rows(cursor: apsw.Cursor) -> bool:
    try:
        return bool(cursor.get_description())
    except apsw.ExecutionCompleteError:
        return False


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
