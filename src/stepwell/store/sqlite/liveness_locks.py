"""Liveness locks: the kernel releases them when a worker dies, so nobody has to wait for its lease.

Each registered worker has a file in `<database>.workers` that its process keeps locked. A free lock
means that the process is gone. Without a file only the lease counts. A frozen process keeps its lock,
but its lease still expires.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from stepwell.domain.ids import WorkerId

TRIES = 20  # after that, another store of the same worker holds it, which is just as good


class WorkerFiles:
    def __init__(self, database: str) -> None:
        self._folder = Path(f"{database}.workers")
        self._held: dict[str, int] = {}

    def hold(self, worker: WorkerId) -> None:
        """Lock this worker's file until release. Call it before the worker's row is written."""
        if worker in self._held:
            return
        path = self._path(worker)
        for _ in range(TRIES):
            self._folder.mkdir(exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            if _try_lock(file) and _is_same(file, path):
                self._held[worker] = file
                return
            os.close(file)  # somebody checks it right now, or it was removed meanwhile
            time.sleep(0.001)

    def release(self, worker: str) -> None:
        file = self._held.pop(worker, None)
        if file is not None:
            self._path(worker).unlink(missing_ok=True)
            os.close(file)

    def release_all(self) -> None:
        for worker in list(self._held):
            self.release(worker)
        try:
            self._folder.rmdir()
        except OSError:  # others have theirs in it, or it was never created
            pass

    def is_free(self, worker: str) -> bool:
        """True if the process that registered this worker has ended."""
        try:
            file = os.open(self._path(worker), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return _try_lock(file)
        finally:
            os.close(file)

    def forget(self, worker: str) -> None:
        """Remove the file of a dead worker."""
        if worker in self._held:
            self.release(worker)
        elif self.is_free(worker):
            self._path(worker).unlink(missing_ok=True)

    def _path(self, worker: str) -> Path:
        # Ids are ours, but a name must never lead out of the folder.
        return self._folder / worker.encode().hex() if not worker.isalnum() else self._folder / worker


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same(file: int, path: Path) -> bool:
    try:
        current = path.stat()
    except FileNotFoundError:
        return False
    own = os.fstat(file)
    return (own.st_dev, own.st_ino) == (current.st_dev, current.st_ino)
