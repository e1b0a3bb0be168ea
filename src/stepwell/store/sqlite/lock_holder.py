"""Holder: the process that has the write lock of a database file, read from /proc/locks.

F_GETLK would need the file of the locks open, and closing it again would release all locks that this
process has on it. Without /proc the holder stays unnamed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from stepwell.errors import StoreLocked

# The byte of `<database>-shm` that the writer of a write-ahead log locks.
_WRITE_LOCK_BYTE = "120"
_COMMAND_LENGTH = 100


class Holder(NamedTuple):
    pid: int
    command: str
    stopped: bool


def locked(path: str, seconds: float) -> StoreLocked:
    """The error after waiting that long for the write lock: who has it, and what to do."""
    holder = find_holder(path)
    since = f"has held the write lock of the database for more than {seconds:g} s"
    if holder is None:
        message = f"another process {since}"
        hint = f"find it with `lsof {path}-shm` and end it or wait for it; nothing was written, so try again"
    elif holder.pid == os.getpid():
        message = f"another engine of this process {since}"
        hint = "wait for its transactional step, and do less in one; nothing was written, so try again"
    elif holder.stopped:
        message = f"process {holder.pid} ({holder.command}) is stopped and {since}"
        hint = (
            f"continue it with `kill -CONT {holder.pid}`, or end it with `kill -9 {holder.pid}`: its open "
            "transaction is rolled back, its runs continue elsewhere; nothing of yours was written: try again"
        )
    else:
        message = f"process {holder.pid} ({holder.command}) {since}"
        hint = f"wait for it or end it with `kill {holder.pid}`; nothing of yours was written, so try again"
    return StoreLocked(message, hint=hint, path=path)


def find_holder(path: str) -> Holder | None:
    try:
        inode = str(os.stat(f"{path}-shm").st_ino)
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        # 3: POSIX  ADVISORY  WRITE 4711 fd:01:262168 120 120
        match line.split():
            case [_, "POSIX", _, "WRITE", pid, place, first, last] if (
                place.rpartition(":")[2] == inode
                and first == last == _WRITE_LOCK_BYTE
                and pid.isdecimal()
                and int(pid) > 0  # 0: a process of another container
            ):
                return _described(int(pid))
    return None


def _described(pid: int) -> Holder | None:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    except OSError:
        return None
    command = " ".join(words).strip()
    if len(command) > _COMMAND_LENGTH:
        command = f"{command[:_COMMAND_LENGTH]}…"
    return Holder(pid, command or "unnamed", state.split()[0] in ("T", "t"))
