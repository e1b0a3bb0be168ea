"""Maintenance of a SQLite file."""

from __future__ import annotations

import os
from collections.abc import Sequence

import apsw

from stepwell.errors import InvalidInput, StoreUnusable
from stepwell.store.maintenance import FAULTS_MAX, StoreFault, StoreSize
from stepwell.store.sqlite.session import QUERIES, Session

_CHECKS = ("gaps", "wrong_heads", "wrong_tickets", "leftovers")


def read_size(session: Session) -> StoreSize:
    path = session.connection.filename
    sizes = [os.path.getsize(path + end) for end in ("", "-wal") if os.path.exists(path + end)]
    counts = {name: int(count) for name, count in session.rows("count_tables")}
    return StoreSize(sum(sizes), counts)


def find_faults(session: Session) -> Sequence[StoreFault]:
    verdicts = [str(row[0]) for row in session.rows("check_pages")]
    faults = [StoreFault("", verdict) for verdict in verdicts if verdict != "ok"]
    for check in _CHECKS:
        faults += [StoreFault(*row) for row in session.rows(check, FAULTS_MAX)]
    return faults


def find_other_workspace(session: Session, workspace: str) -> str:
    row = session.row("find_other_workspace", workspace)
    return "" if row is None or row[0] is None else str(row[0])


def stored_schema(path: str) -> int:
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return 0
    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return int(connection.pragma("user_version"))
        finally:
            connection.close()
    except apsw.Error:
        return 0  # opening it reports what is wrong


def back_up(source: str, path: str) -> int:
    """Copy one consistent moment while others write. The copy is compact. Uses its own connection."""
    if os.path.exists(path):
        raise InvalidInput(f"{path} exists", hint="name a new file: a backup replaces nothing", field="path")
    try:
        connection = apsw.Connection(source, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(10_000)
            connection.execute(QUERIES["back_up"], (path,))
        finally:
            connection.close()
    except apsw.Error as error:
        raise StoreUnusable(
            f"the backup cannot be written: {error}",
            hint="see the message; the database is unchanged",
            path=path,
        ) from error
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
    return os.path.getsize(path)
