"""Transactions: a user's own writes and the event of its step, committed together.

The body runs on the writer's thread with the engine's connection: a second SQLite library in this process
would break the file's locks. It may do anything with its own tables, but must not end the transaction or
touch ours. Nobody else can write meanwhile, so its statements have a time limit.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import apsw

from stepwell.domain.commit import Commit, Committed, Outcome
from stepwell.domain.fence import check_fence
from stepwell.errors import InvalidDefinition, InvalidRequest, StepTimedOut
from stepwell.store.sqlite.commits import Fence, not_written, write
from stepwell.store.sqlite.errors import translated
from stepwell.store.sqlite.session import Session, as_list
from stepwell.store.sqlite.thread_queue import RolledBack

BODY_SECONDS = 10.0  # less than the 15 s for which others wait for the write lock
PROGRESS_STEPS = 10_000  # of SQLite's machine between two looks at the clock; less than a millisecond

_SCHEMA = files("stepwell.store.sqlite").joinpath("schema.sql").read_text()
OURS = frozenset(re.findall(r"^CREATE TABLE (\w+)", _SCHEMA, re.MULTILINE))
OUR_VIEWS = frozenset(re.findall(r"^CREATE VIEW (\w+)", _SCHEMA, re.MULTILINE))
_WRITES = frozenset(
    {
        *(apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE, apsw.SQLITE_DROP_TABLE),
    }
)
_NEVER = frozenset({apsw.SQLITE_TRANSACTION, apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH})
_PRAGMAS = frozenset({"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"})

Turn = Callable[[Any], Awaitable[Commit] | Commit]


class StepConnection:
    """The connection of a transactional step: `execute` and `executemany` of the engine's own."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection: apsw.Connection | None = connection
        self._cursors: list[apsw.Cursor] = []

    def execute(self, sql: str, values: Any = None) -> apsw.Cursor:
        with self._cursor() as cursor:
            cursor.execute(sql, values)
        return cursor

    def executemany(self, sql: str, rows: Iterable[Any]) -> apsw.Cursor:
        with self._cursor() as cursor:
            cursor.executemany(sql, rows)
        return cursor

    def changes(self) -> int:
        """Return how many rows the last statement changed."""
        return self._open().changes()

    def last_insert_rowid(self) -> int:
        return self._open().last_insert_rowid()

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            raise InvalidRequest(
                "the transactional step has ended; its connection can no longer be used",
                hint="read what you need inside the step and return it",
            )
        return self._connection

    @contextmanager
    def _cursor(self) -> Iterator[apsw.Cursor]:
        cursor = self._open().cursor()
        self._cursors.append(cursor)
        try:
            yield cursor
        except apsw.AuthError as error:
            raise InvalidRequest(
                "a transactional step cannot end its transaction, attach files or write Stepwell's tables",
                hint="write your own tables and return: they and the step's event are committed together",
            ) from error
        except apsw.InterruptError as error:
            raise StepTimedOut(
                f"the transactional step held the write lock for more than {BODY_SECONDS:g} s",
                hint="do less in one transactional step: all other writers wait for it",
            ) from error

    def end(self) -> None:
        self._connection = None
        for cursor in self._cursors:  # a statement with unread rows would block the commit
            cursor.close(True)


class RecordBody:
    """A change of a record. It may write our tables, so it needs no guard."""

    def __init__(self, work: Callable[[Session], Any]) -> None:
        self._work = work

    def __call__(self, session: Session) -> Any:
        return self._work(session)


def transact(session: Session, body: Callable[[Any], Any], turn: Turn) -> Committed:
    try:
        if isinstance(body, RecordBody):
            result = body(session)
        else:
            allow = _allow_strictly if getattr(body, "strict", False) else _allow
            with _guarded(session.connection, allow) as connection:
                result = body(connection)
        if isinstance(result, Coroutine):
            result.close()
            raise InvalidDefinition(
                "on SQLite a transactional step is a plain function", hint="write `def`, not `async def`"
            )
        commit = turn(result)
        assert isinstance(commit, Commit), "on SQLite a turn is a plain function"
    except StopIteration as error:  # a future cannot carry it
        raise RolledBack(error=RuntimeError("the transactional step raised StopIteration")) from error
    except BaseException as error:
        broken = isinstance(error, apsw.Error) and not isinstance(error, apsw.ConstraintError | apsw.SQLError)
        raise RolledBack(error=translated(error, "") if broken else error) from error
    fence = session.row("fences", as_list([commit.run_id]))
    if fence is None:
        raise RolledBack(not_written(session, commit, Outcome.LOST, 0))
    ticket = Fence(*fence)
    outcome = check_fence(commit, lease=ticket.lease, head=ticket.head, wakes=ticket.wakes)
    if outcome is not Outcome.OK:  # also if it was written before: then the body's writes were, too
        raise RolledBack(not_written(session, commit, outcome, ticket.wakes))
    [committed] = write(session, [commit])
    return committed


@contextmanager
def _guarded(connection: apsw.Connection, allow: apsw.Authorizer) -> Iterator[StepConnection]:
    until = time.monotonic() + BODY_SECONDS
    step_connection = StepConnection(connection)
    # Setting an authorizer makes SQLite prepare every statement again, even a cached COMMIT.
    connection.set_authorizer(allow)
    connection.set_progress_handler(lambda: time.monotonic() > until, PROGRESS_STEPS)
    try:
        yield step_connection
    finally:
        step_connection.end()
        connection.set_progress_handler(None)
        connection.set_authorizer(None)


def _allow(
    action: int, first: str | None, second: str | None, schema: str | None, trigger: str | None
) -> int:
    if action in _NEVER:
        return apsw.SQLITE_DENY
    if action in _WRITES and (first or "").lower() in OURS and schema == "main":
        return apsw.SQLITE_DENY
    if action == apsw.SQLITE_ALTER_TABLE and (second or "").lower() in OURS:
        return apsw.SQLITE_DENY
    if action == apsw.SQLITE_PRAGMA and (first or "").lower() not in _PRAGMAS:
        return apsw.SQLITE_DENY
    return apsw.SQLITE_OK


# A statement of a graph may only read and change rows of tables that are not ours.
_ROWS = frozenset(
    {
        *(apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE),
        *(apsw.SQLITE_RECURSIVE, apsw.SQLITE_FUNCTION),
    }
)
_FUNCTIONS = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})


def _allow_strictly(
    action: int, first: str | None, second: str | None, schema: str | None, trigger: str | None
) -> int:
    name = (first or "").lower()
    if action not in _ROWS or (action == apsw.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS):
        return apsw.SQLITE_DENY
    if action not in (apsw.SQLITE_SELECT, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE) and (
        name in OURS or name in OUR_VIEWS or name.startswith(("sqlite_", "pragma_", "dbstat"))
    ):
        return apsw.SQLITE_DENY
    return apsw.SQLITE_OK
