"""Lifeline: ties the process of a step to its worker. When the worker is gone the process ends.

The lease is lost with the worker, and its next owner runs the step again: a process that works on would
do so beside it. Linux kills such a process itself once it was asked to. That comes too late for a worker
which died before the request, and elsewhere there is no such request; but a process whose parent has died
always gets another parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_LOOK_SECONDS = 0.1  # how often to look for the parent where the kernel does not end us
ORPHANED = 75  # exit code; nobody is left to read it


class Lifeline:
    def __init__(self, worker: int) -> None:
        self._worker = worker  # the process that started this one

    def tie(self) -> None:
        """End with the worker from now on, also if it is gone already."""
        if not kernel_ends_orphans():
            threading.Thread(target=self._watch, name="stepwell-lifeline", daemon=True).start()
        self.check()

    def check(self) -> None:
        """End at once if the worker is gone, without running anything more of the user's."""
        if os.getppid() != self._worker:
            os._exit(ORPHANED)

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            self.check()


def kernel_ends_orphans() -> bool:
    """Ask the kernel to kill this process when its parent dies; False: it does not do that here."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) == 0)
