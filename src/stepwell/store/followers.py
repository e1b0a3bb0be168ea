"""Followers: which runs are followed, in this process and in others.

A process that follows a run tells the others, and repeats that while it follows. Only then does a worker
hint at every commit of that run. A run without followers costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stepwell.domain.ids import RunId

LIST = RunId("*")  # followed by lists of runs: notified when the status of any run changes
RENEW_SECONDS = 10.0
KEEP_SECONDS = 3 * RENEW_SECONDS  # a process that is silent for this long no longer follows
_IDS_MAX = 200  # runs in one hint; a PostgreSQL notification has room for 8000 bytes

# The hints of one process to the others. The empty hint says that there may be work.
WORK = ""
ASK = "ask"  # which runs do you follow?
_FOLLOW = "follow "
_GREW = "grew "


def grew(run_id: RunId) -> str:
    """Return the hint that the log of a followed run grew, or that the list of runs changed."""
    return _GREW + run_id


def read_grew(hint: str) -> RunId | None:
    return RunId(hint[len(_GREW) :]) if hint.startswith(_GREW) else None


def follow(run_ids: Iterable[RunId]) -> Iterator[str]:
    """Yield the hints that this process follows these runs."""
    ids = list(run_ids)
    for first in range(0, len(ids), _IDS_MAX):
        yield _FOLLOW + " ".join(ids[first : first + _IDS_MAX])


def read_follow(hint: str) -> list[RunId]:
    return [RunId(run_id) for run_id in hint.split(" ")[1:]] if hint.startswith(_FOLLOW) else []


class Followers:
    def __init__(self) -> None:
        self.here: dict[RunId, int] = {}  # number of followers here, by run
        self._elsewhere: dict[RunId, float] = {}  # followed elsewhere, until this time
        self.anywhere: set[RunId] = set()  # read by a worker after every commit

    def begin(self, run_id: RunId) -> bool:
        """Count a follower in this process. True if it is the first of the run."""
        first = run_id not in self.here
        self.here[run_id] = self.here.get(run_id, 0) + 1
        self.anywhere.add(run_id)
        return first

    def end(self, run_id: RunId) -> None:
        self.here[run_id] -= 1
        if not self.here[run_id]:
            del self.here[run_id]
            if run_id not in self._elsewhere:
                self.anywhere.discard(run_id)

    def heard(self, run_ids: Iterable[RunId], now: float) -> list[RunId]:
        """Note that another process follows these runs; return those that were not followed before."""
        for run_id in [run_id for run_id, until in self._elsewhere.items() if until <= now]:
            self._forget(run_id)
        fresh = []
        for run_id in run_ids:
            if run_id not in self._elsewhere:
                fresh.append(run_id)
            self._elsewhere[run_id] = now + KEEP_SECONDS
            self.anywhere.add(run_id)
        return fresh

    def elsewhere(self, run_id: RunId, now: float) -> bool:
        until = self._elsewhere.get(run_id)
        if until is None:
            return False
        if until <= now:
            self._forget(run_id)
            return False
        return True

    def _forget(self, run_id: RunId) -> None:
        del self._elsewhere[run_id]
        if run_id not in self.here:
            self.anywhere.discard(run_id)
