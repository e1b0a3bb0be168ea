"""Database file: checks and migrates it before anybody writes to it.

A file that is damaged, newer, of another application or not accessible is refused with a reason before a
byte of it changes. Migrations run under the write lock, in one transaction: a process that dies in the
middle leaves the file as it was.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path

import apsw

from stepwell.errors import StoreMoved, StoreUnavailable, StoreUnusable
from stepwell.store import queries
from stepwell.store.base import SchemaVersion
from stepwell.store.sqlite.lock_holder import locked
from stepwell.store.sqlite.session import STATEMENTS_CACHED, Session

APPLICATION_ID = 0x57656C6C  # "Well", in the header of every file of ours
SQLITE_MIN = (3, 51, 3)  # earlier, two connections could lose a page when the log was reset
OPEN_SECONDS = 10.0  # how long to wait for another process that migrates
QUICK_CHECK_BYTES = 16 * 1024 * 1024  # larger files are checked only as they are read
HEADER = b"SQLite format 3\x00"
# Locks and shared memory do not work across hosts on these.
NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.")

_WRITER = """
PRAGMA synchronous = FULL;
PRAGMA temp_store = MEMORY;
PRAGMA mmap_size = 0;
PRAGMA cache_size = -32768;
PRAGMA journal_size_limit = 67108864;
PRAGMA cell_size_check = ON;
"""


def migrations() -> list[tuple[int, str]]:
    """Number and text of each, in order."""
    folder = files("stepwell.store.sqlite.migrations")
    entries = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    entries.sort(key=lambda entry: entry.name)
    return [(int(entry.name.split("_")[0]), entry.read_text(encoding="utf-8")) for entry in entries]


def open_writer(path: str, *, moving: bool = False) -> apsw.Connection:
    """Open the connection that writes; first create or migrate the file. Only a move may open a moved one."""
    _check_library()
    _check_place(path)
    is_new = not os.path.exists(path) or os.path.getsize(path) == 0
    with _refusing(path):
        connection = apsw.Connection(path, statementcachesize=STATEMENTS_CACHED)
        try:
            connection.set_busy_timeout(int(OPEN_SECONDS * 1000))
            _keep_plans(connection)
            _check_file(connection, path)
            _switch_to_wal(connection)
            connection.execute(_WRITER)
            _migrate(connection, path)
            if not moving and connection.table_exists("main", "moved"):
                _check_here(connection, path)
            connection.execute(queries.text("stepwell.store.sqlite", "heartbeat_trigger.sql"))
            if is_new:
                _sync_folder(path)
        except BaseException:
            connection.close(True)
            raise
    connection.set_busy_timeout(0)  # from now on the writer waits in its own way (write_intent.py)
    return connection


def _switch_to_wal(connection: apsw.Connection) -> None:
    """Retry by ourselves: if two processes create a file at once, SQLite says busy here without waiting."""
    until = time.monotonic() + OPEN_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except apsw.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def open_reader(path: str) -> apsw.Connection:
    """Open a connection that only reads; checkpoints are left to the writer."""
    with _refusing(path):
        connection = apsw.Connection(
            path, flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=STATEMENTS_CACHED
        )
        connection.set_busy_timeout(int(OPEN_SECONDS * 1000))
        _keep_plans(connection)
        connection.wal_autocheckpoint(0)
        connection.execute("PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0")
    return connection


def _keep_plans(connection: apsw.Connection) -> None:
    """Make plans independent of bound values: one that depends on them is prepared again at each use."""
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


@contextmanager
def _refusing(path: str) -> Iterator[None]:
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError, apsw.FormatError) as error:
        raise StoreUnusable(
            f"the file is damaged or not a SQLite database: {error}",
            hint="choose another path, restore a backup, or try the sqlite3 command .recover",
            path=path,
        ) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError) as error:
        raise StoreUnusable(
            f"the file cannot be opened for writing: {error}",
            hint="make the file and its directory writable for this user: SQLite writes a log next to it",
            path=path,
        ) from error
    except apsw.BusyError as error:
        raise locked(path, OPEN_SECONDS) from error
    except apsw.Error as error:
        raise StoreUnavailable(
            f"the file cannot be opened: {error}", hint="see the message", path=path
        ) from error


def _check_library() -> None:
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < SQLITE_MIN:
        oldest = ".".join(map(str, SQLITE_MIN))
        raise StoreUnusable(
            f"SQLite {apsw.sqlite_lib_version()} is too old; {oldest} or later is needed",
            hint="pip install --upgrade apsw",
        )


def _check_place(path: str) -> None:
    if os.path.isdir(path):
        raise StoreUnusable("the path is a directory", hint=f"name a file in it: {path}/app.db", path=path)
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise StoreUnusable(
            "the directory of the database does not exist", hint=f"mkdir -p {folder}", path=path
        )
    kind = _filesystem(os.path.realpath(folder))
    if kind.startswith(NETWORK):
        raise StoreUnusable(
            f"the file would be on a network filesystem ({kind}), where SQLite's locks do not work",
            hint="use a local disk, or PostgreSQL for several hosts",
            path=path,
        )


def _filesystem(folder: str) -> str:
    """The type of the filesystem that holds a folder; '' if the system does not say."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    best, kind = -1, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        place = before.split()[4].encode().decode("unicode_escape")  # spaces are written as \040
        inside = folder == place or folder.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= best:
            best, kind = len(place), after.split()[0]
    return kind


def _check_file(connection: apsw.Connection, path: str) -> None:
    """Check that the file is ours, not newer and not damaged. Only reads."""
    if connection.readonly("main"):
        raise apsw.ReadOnlyError("it is read-only for this user")
    with open(path, "rb") as file:
        start = file.read(len(HEADER))
    if start and start != HEADER:
        raise apsw.NotADBError("its header is not that of one")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    application = connection.pragma("application_id")
    if application != APPLICATION_ID and (application or tables):
        raise StoreUnusable(
            "the file is the database of another application",
            hint="give Stepwell a file of its own; transactional steps can create their tables in it",
            path=path,
        )
    _check_version(connection, path)
    if tables and os.path.getsize(path) <= QUICK_CHECK_BYTES:
        verdict = connection.execute("PRAGMA quick_check(1)").get
        if verdict != "ok":
            raise apsw.CorruptError(str(verdict))


def _check_version(connection: apsw.Connection, path: str) -> int:
    version = int(connection.pragma("user_version"))
    newest = migrations()[-1][0]
    if version > newest:
        raise StoreUnusable(
            f"the file was written by a newer Stepwell (schema {version}; this one knows {newest})",
            hint="pip install --upgrade stepwell",
            path=path,
        )
    return version


@cache
def _newest() -> int:
    return migrations()[-1][0]


def read_schema(session: Session) -> SchemaVersion:
    return SchemaVersion(int(session.connection.pragma("user_version")), _newest())


def _migrate(connection: apsw.Connection, path: str) -> None:
    steps = migrations()
    if connection.pragma("user_version") == steps[-1][0]:
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        version = _check_version(connection, path)  # another process may have been faster
        for number, text in steps:
            if number > version:
                connection.execute(text)
                connection.pragma("user_version", number)
        connection.pragma("application_id", APPLICATION_ID)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_here(connection: apsw.Connection, path: str) -> None:
    row = connection.execute("SELECT state, place FROM moved").get
    if row is not None:
        state, place = row
        raise StoreMoved(
            f"the database has moved to {place}"
            if state == "moved"
            else f"the database is on its way to {place}",
            hint=f"use {place}" if state == "moved" else f"finish it: stepwell move {path} {place}",
            path=path,
        )


def _sync_folder(path: str) -> None:
    """Sync the folder: a new file whose name is not on disk is lost in a power failure."""
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
