"""RunLimits: the timeouts of runs, where those that begin with the same one share a timer."""

from __future__ import annotations

from stepwell.engine.run.timers import Timers
from stepwell.shared_timeout import SharedTimeout

_SHARED_MAX = 100  # a caller may give every run a timeout of its own


class RunLimits:
    def __init__(self) -> None:
        self._shared: dict[float, SharedTimeout[Timers]] = {}

    def of(self, seconds: float, *, shared: bool) -> SharedTimeout[Timers]:
        found = self._shared.get(seconds) if shared else None
        if found is None:
            found = SharedTimeout(seconds, Timers.ran_out)
            if shared and len(self._shared) < _SHARED_MAX:
                self._shared[seconds] = found
        return found
