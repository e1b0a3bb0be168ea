"""Intent: lets a process that waits for the write lock in between the commits of a busy one.

SQLite has no queue of writers: the one that tries at the right moment gets the lock. A waiter therefore
holds `<database>.intent` shared; the busy writer looks after each commit and steps aside while it is held.
Trying every 0.2 ms already keeps the median low (SQLite's own busy timeout, which sleeps longer and longer,
starved others in an experiment). Stepping aside shortens the worst waits: next to a process that writes
without a gap, on a loaded machine, 37 to 136 ms instead of 166 to 224 ms.
"""

from __future__ import annotations

import fcntl
import os
import time

YIELD_SECONDS = 0.003  # enough for a waiter that tries every 0.2 ms
LOOK_SECONDS = 0.0002


class Intent:
    def __init__(self, database: str) -> None:
        self._file = os.open(f"{database}.intent", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def announce(self) -> None:
        """Say that this process waits for the write lock."""
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def withdraw(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def step_aside(self) -> None:
        """After a commit: let waiters take the lock, for a moment at most."""
        until = 0.0
        while not self._is_alone():
            moment = time.monotonic()
            until = until or moment + YIELD_SECONDS
            if moment >= until:
                return
            time.sleep(LOOK_SECONDS)

    def _is_alone(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return True

    def close(self) -> None:
        os.close(self._file)
