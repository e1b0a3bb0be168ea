"""QueueUse: how many runs and remote steps a queue holds, and how long the oldest has been ready."""

from __future__ import annotations

from typing import NamedTuple


class QueueUse(NamedTuple):
    queue: str
    ready: int  # due, without an owner
    waiting: int  # waiting for time or a message
    active: int  # owned by a worker
    oldest: float | None  # when the oldest ready one became due

    def age(self, now: float) -> float:
        """Return for how many seconds the oldest one has been ready."""
        return max(0.0, now - self.oldest) if self.oldest is not None else 0.0
