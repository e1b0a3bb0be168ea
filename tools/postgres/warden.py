"""Outlives its parent by a moment: when that is gone, also by kill -9, ends the server and its folder.

Started by `cluster.py` as a process of its own. Each line of its input names a server's process
id to guard from now on; the end of the input means that the parent is gone or has finished.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys

QUICK_END_SECONDS = 10.0


class Guarded:
    """One process, held by a descriptor so that a number used again is never hit."""

    def __init__(self, pid: int) -> None:
        try:
            self.descriptor: int | None = os.pidfd_open(pid)
        except ProcessLookupError:
            self.descriptor = None

    def end(self) -> None:
        """An immediate shutdown, by force if it does not come."""
        if self.descriptor is None:
            return
        for word, seconds in ((signal.SIGQUIT, QUICK_END_SECONDS), (signal.SIGKILL, QUICK_END_SECONDS)):
            try:
                signal.pidfd_send_signal(self.descriptor, word)
            except ProcessLookupError:
                break
            poll = select.poll()
            poll.register(self.descriptor, select.POLLIN)
            if poll.poll(seconds * 1000):
                break
        self.forget()

    def forget(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def main(folder: str) -> None:
    guarded: Guarded | None = None
    for line in sys.stdin:
        if guarded:
            guarded.forget()
        guarded = Guarded(int(line))
        print("guarded", flush=True)
    if guarded:
        guarded.end()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
