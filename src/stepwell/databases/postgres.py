"""A named PostgreSQL database: prepared statements with bound values, in a transaction of their own."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import asyncpg

from stepwell.databases.errors import QueryError, ResultSize, check_columns, too_many_rows
from stepwell.databases.statement import Statement

_CONNECTIONS_MAX = 4
_CONNECT_SECONDS = 10.0
_ROWS_AT_ONCE = 100  # rows in memory before they are counted; fewer if they are large
# Sent as text, so that JSON gets the exact value: decimals, and dates with infinity.
_AS_TEXT = (
    *("numeric", "date", "time", "timetz", "timestamp", "timestamptz", "interval", "uuid", "inet", "cidr"),
    *("money", "xml", "macaddr"),
)
_AS_JSON = ("json", "jsonb")
_WRONG_VALUES = (asyncpg.DataError, asyncpg.InterfaceError, ValueError, TypeError, OverflowError)


class PostgresDatabase:
    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: asyncpg.Pool[Any] | None = None
        self._opening = asyncio.Lock()

    async def query(
        self, statement: Statement, params: dict[str, Any], *, rows_max: int, seconds: float, read_only: bool
    ) -> dict[str, Any]:
        values = statement.values(params)
        statement.check_kind()
        pool = await self._opened()
        try:
            async with (
                asyncio.timeout(seconds + 1),
                pool.acquire() as connection,
                connection.transaction(readonly=read_only),
            ):
                await connection.execute(f"SET LOCAL statement_timeout = {max(1, int(seconds * 1000))}")
                return await _rows(connection, statement, values, rows_max)
        except TimeoutError:
            raise _timeout(seconds) from None
        except asyncpg.PostgresError as error:
            raise _translated(error, seconds) from None
        except _WRONG_VALUES as error:
            raise _wrong_value(error) from None
        except OSError as error:
            raise QueryError("SQL_CONNECT", f"the connection broke: {error}", permanent=False) from None

    async def _opened(self) -> asyncpg.Pool[Any]:
        async with self._opening:
            if self._pool is None:
                try:
                    self._pool = await asyncpg.create_pool(
                        self._url,
                        min_size=0,
                        max_size=_CONNECTIONS_MAX,
                        init=_prepare,
                        timeout=_CONNECT_SECONDS,
                        statement_cache_size=0,
                        reset=_reset,
                    )
                except (OSError, asyncpg.PostgresError, TimeoutError) as error:
                    raise QueryError(
                        "SQL_CONNECT",
                        f"the database does not answer: {type(error).__name__}",
                        permanent=False,
                    ) from None
        assert self._pool is not None
        return self._pool

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()


async def asked(
    connection: Any,
    statement: Statement,
    params: dict[str, Any],
    *,
    role: str,
    rows_max: int,
    seconds: float,
) -> dict[str, Any]:
    """Run a statement in the caller's transaction under another role, and leave both as they were."""
    values = statement.values(params)
    try:
        async with asyncio.timeout(seconds + 1):
            await _prepare(connection)
            await connection.execute(f"SET LOCAL statement_timeout = {max(1, int(seconds * 1000))}")
            await connection.execute(f'SET LOCAL ROLE "{role}"')
            answer = await _rows(connection, statement, values, rows_max)
            # Deferred triggers run now, under the role that caused them.
            await connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            if await connection.fetchval("SELECT current_user::text") != role:
                raise QueryError("SQL_FORBIDDEN", "the statement changed its role")
            if await connection.fetchval("SELECT pg_my_temp_schema()::int8"):
                raise QueryError(
                    "SQL_FORBIDDEN",
                    "the statement made a temporary table, which would hide others of its name later",
                    hint="write to a table that the role may write to",
                )
            await connection.execute("RESET ROLE; RESET ALL")
            for name in (*_AS_TEXT, *_AS_JSON):
                await connection.reset_type_codec(name, schema="pg_catalog")
            return answer
    except BaseException as error:
        connection.terminate()  # it has another role and other types, so it must not be reused
        if isinstance(error, TimeoutError):
            raise _timeout(seconds) from None
        if isinstance(error, _WRONG_VALUES):
            raise _wrong_value(error) from None
        if isinstance(error, asyncpg.PostgresError):
            raise _translated(error, seconds) from None
        raise


async def _rows(connection: Any, statement: Statement, values: list[Any], rows_max: int) -> dict[str, Any]:
    prepared = await connection.prepare(statement.numbered())
    names = [attribute.name for attribute in prepared.get_attributes()]
    if not names:
        await prepared.fetch(*values)
        return {"rows": [], "count": _affected(prepared.get_statusmsg())}
    check_columns(names)
    rows: list[dict[str, Any]] = []
    size, at_once = ResultSize(), 1
    cursor = await prepared.cursor(*values)
    while records := await cursor.fetch(at_once):
        for record in records:
            if len(rows) == rows_max:
                raise too_many_rows(rows_max)
            size.add(record)
            rows.append({name: _value(value, name) for name, value in zip(names, record, strict=True)})
        at_once = size.rows_at_once(len(rows), _ROWS_AT_ONCE)
    return {"rows": rows, "count": len(rows)}


async def _reset(connection: Any) -> None:
    """Leave nothing of a query to the next one: no role, no setting, no temporary table, no lock."""
    await connection.execute("DISCARD ALL")


async def _prepare(connection: Any) -> None:
    for name in _AS_TEXT:
        await connection.set_type_codec(name, schema="pg_catalog", encoder=_text, decoder=str, format="text")
    for name in _AS_JSON:
        await connection.set_type_codec(
            name, schema="pg_catalog", encoder=_json, decoder=_parsed, format="text"
        )


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"text or a number is expected, not {type(value).__name__}")
    return str(value)


def _json(value: Any) -> str:
    from stepwell.domain.codec import PLAIN

    return PLAIN.encode(value).decode()


def _parsed(text: str) -> Any:
    from stepwell.domain.codec import PLAIN

    return PLAIN.decode(text.encode())


def _value(value: Any, name: str) -> Any:
    if value is None or isinstance(value, bool | int | str | dict):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [_value(item, name) for item in value]
    raise QueryError(
        "SQL_TYPE", f"the column {name} is a {type(value).__name__}", hint="cast it to text: column::text"
    )


def _affected(status: str | None) -> int:
    last = (status or "").rsplit(" ", 1)[-1]
    return int(last) if last.isdigit() else 0


def _wrong_value(error: Exception) -> QueryError:
    return QueryError("SQL_PARAMS", f"a parameter does not fit: {str(error)[:300]}")


def _timeout(seconds: float) -> QueryError:
    return QueryError("SQL_TIMEOUT", f"the query took longer than {seconds:g} s", permanent=False)


def _translated(error: asyncpg.PostgresError, seconds: float) -> QueryError:
    if isinstance(error, asyncpg.QueryCanceledError):
        return _timeout(seconds)
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        return QueryError("SQL_READ_ONLY", str(error), hint="set readOnly to false if the node may write")
    if isinstance(error, asyncpg.DataError | asyncpg.InvalidTextRepresentationError):
        return QueryError("SQL_PARAMS", f"a value does not fit: {error}"[:300])
    state = str(error.sqlstate or "")
    passing = state[:2] in ("08", "40", "53", "57", "58") or state == "55P03"
    code = "SQL_CONNECT" if state[:2] in ("08", "53", "57") else "SQL_ERROR"
    return QueryError(code, str(error)[:500], permanent=not passing, sqlstate=state)
