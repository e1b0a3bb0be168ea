"""Guard: keeps this process from opening our file with the standard `sqlite3` module.

Two SQLite libraries in one process break the file's locks: POSIX locks belong to the process, so when one
library closes the file, the locks of the other are gone. An acknowledged write of another process was seen
to vanish. Using `sqlite3` in another process is harmless.
"""

from __future__ import annotations

import os
import sys
import threading
from urllib.parse import unquote, urlsplit

from stepwell.errors import StoreUnusable

Place = tuple[int, int]  # device and inode
_guarded: dict[Place, int] = {}  # how many stores have it open
_lock = threading.Lock()
_installed = False


def protect(path: str) -> Place:
    """Guard this file. The first call installs the audit hook, which cannot be removed again."""
    global _installed  # noqa: PLW0603 - audit hooks belong to the process, too
    status = os.stat(path)
    place = (status.st_dev, status.st_ino)
    with _lock:
        _guarded[place] = _guarded.get(place, 0) + 1
        if not _installed:
            sys.addaudithook(_on_audit)
            _installed = True
    return place


def check_place(path: str, place: Place) -> None:
    """Raise StoreUnusable if the path leads to another file now: writes to ours would be lost with it."""
    try:
        status = os.stat(path)
        if (status.st_dev, status.st_ino) == place:
            return
    except OSError:
        pass
    raise StoreUnusable(
        "the database file was deleted, moved or replaced while it was open",
        hint="put the same file back and Stepwell continues; else stop its processes and restore a backup",
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
        status = os.stat(name)
    except (OSError, ValueError):
        return
    if (status.st_dev, status.st_ino) in _guarded:
        raise StoreUnusable(
            "Stepwell has this file open in this process; opening it with sqlite3 too would break its locks",
            hint="write in a transactional step (@step(transactional=True)), or open it from another process",
            path=name,
        )


def _file_name(database: object) -> str:
    name = os.fsdecode(database) if isinstance(database, str | bytes | os.PathLike) else ""
    return unquote(urlsplit(name).path) if name.startswith("file:") else name
