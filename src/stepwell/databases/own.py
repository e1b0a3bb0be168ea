"""OwnQuery: a statement on the engine's own database, in the transaction that records its node.

An operator allows it with a connection whose address is `engine:`. A person who may save graphs can then do
what the role of the statements can do; on PostgreSQL the address names it: `engine:?role=app`.

Our own tables stay closed. SQLite refuses each access to them. On PostgreSQL the role must have no rights
on them. Statements that change the role or run text as SQL are refused, and the role is checked afterwards.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from stepwell.databases.errors import QueryError
from stepwell.databases.statement import Statement
from stepwell.errors import InvalidRequest, SettingsInvalid, StepTimedOut, excerpt

ADDRESS = "engine:"
_ROLE = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_VERBS = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:select|insert|update|delete|merge|with)\b", re.I | re.S)
_RUNS_TEXT = r"(?:query|table|schema|database|cursor)_to_xml\w*|ts_stat|ts_rewrite|dblink\w*"
_FORBIDDEN = re.compile(rf"set_config|current_setting|pg_read_\w+|lo_\w+|{_RUNS_TEXT}|U&", re.I)


def role_of(url: str, name: str) -> str:
    """Return the role in the address of an own connection, or ''."""
    options = parse_qs(urlsplit(url).query, strict_parsing=False)
    role = options.pop("role", [""])[0]
    if options or (role and not _ROLE.fullmatch(role)) or urlsplit(url).path:
        raise SettingsInvalid(
            f"the connection {name} is {excerpt(url)}",
            hint="write engine:, or engine:?role=app on PostgreSQL",
        )
    return role


class OwnQuery:
    """A body for `transact`, called with the open transaction of the store."""

    strict = True  # stores refuse it access to our tables, even for reading

    def __init__(
        self, statement: Statement, params: dict[str, Any], *, role: str, rows_max: int, seconds: float
    ) -> None:
        self._statement = statement
        self._params = params
        self._role = role
        self._rows_max = rows_max
        self._seconds = seconds
        statement.values(params)
        if not _VERBS.match(statement.text) or _FORBIDDEN.search(statement.text):
            raise QueryError(
                "SQL_FORBIDDEN",
                "the statement would change more than rows",
                hint="write SELECT, INSERT, UPDATE, DELETE or MERGE, without functions that execute text",
            )

    def __call__(self, connection: Any) -> Any:
        if connection is None:
            raise QueryError("SQL_CONNECTION", "an engine in memory has no tables", hint="use a file")
        if hasattr(connection, "last_insert_rowid"):
            return self._on_sqlite(connection)
        return self._on_postgres(connection)

    def _on_sqlite(self, connection: Any) -> dict[str, Any]:
        from stepwell.databases.sqlite import check_params, rows_of, translated

        check_params(self._params)
        try:
            cursor = connection.execute(self._statement.text, self._params)
            names, rows = rows_of(cursor, self._rows_max)
        except (InvalidRequest, StepTimedOut) as error:
            timed_out = isinstance(error, StepTimedOut)
            raise QueryError(
                "SQL_TIMEOUT" if timed_out else "SQL_FORBIDDEN", error.message, permanent=not timed_out
            ) from None
        except QueryError:
            raise
        except Exception as error:
            raise translated(error, self._seconds) from None
        return {"rows": rows, "count": len(rows) if names else connection.changes()}

    async def _on_postgres(self, connection: Any) -> dict[str, Any]:
        from stepwell.databases.postgres import asked

        if not self._role:
            raise QueryError(
                "SQL_CONNECTION",
                "on PostgreSQL the connection names the role of its statements",
                hint="an operator writes engine:?role=app; that role must not read Stepwell's tables",
            )
        return await asked(
            connection,
            self._statement,
            self._params,
            role=self._role,
            rows_max=self._rows_max,
            seconds=self._seconds,
        )
