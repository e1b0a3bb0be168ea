"""Guard: nobody in this process opens our file with the standard `sqlite3` module.

Two SQLite libraries in one process break the file's locks: POSIX locks belong to the process, so
when the one closes the file, the locks of the other are gone, and an acknowledged write of somebody
else was seen to vanish. Reading through `sqlite3` from another process is harmless.
"""

from __future__ import annotations

import os
import sys
import threading
from urllib.parse import unquote, urlsplit

from stepwell.errors import StoreUnusable

Place = tuple[int, int]  # device and inode
_guarded: dict[Place, int] = {}  # how often it is open
_lock = threading.Lock()
_installed = False


def protect(path: str) -> Place:
    """From now on; the hook is installed with the first file (it cannot be removed again)."""
    global _installed  # noqa: PLW0603 - there is one list of audit hooks in a process, too
    found = os.stat(path)
    place = (found.st_dev, found.st_ino)
    with _lock:
        _guarded[place] = _guarded.get(place, 0) + 1
        if not _installed:
            sys.addaudithook(_on_audit)
            _installed = True
    return place


def check_place(path: str, place: Place) -> None:
    """The open file is still the one of that name: what is written to another is lost with its last user."""
    try:
        found = os.stat(path)
        if (found.st_dev, found.st_ino) == place:
            return
    except OSError:
        pass
    raise StoreUnusable(
        "the database file was deleted, moved or replaced while it was open",
        hint="put the same file back and Stepwell goes on; else stop its processes and restore a backup",
        path=path,
    )


def release(place: Place) -> None:
    with _lock:
        count = _guarded.get(place, 0) - 1
        if count > 0:
            _guarded[place] = count
        else:
            _guarded.pop(place, None)


def _on_audit(event: str, args: tuple[object, ...]) -> None:
    if event != "sqlite3.connect" or not _guarded:
        return
    name = _file_name(args[0])
    try:
        found = os.stat(name)
    except (OSError, ValueError):
        return
    if (found.st_dev, found.st_ino) in _guarded:
        raise StoreUnusable(
            "Stepwell has this file open in this process; opening it with sqlite3 too would break its locks",
            hint="write in a transactional step (@step(transactional=True)), or open it from another process",
            path=name,
        )


def _file_name(database: object) -> str:
    name = os.fsdecode(database) if isinstance(database, str | bytes | os.PathLike) else ""
    return unquote(urlsplit(name).path) if name.startswith("file:") else name
