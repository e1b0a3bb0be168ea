"""QueueUse: how many runs and remote steps a queue holds, and for how long the oldest has been due."""

from __future__ import annotations

from typing import NamedTuple


class QueueUse(NamedTuple):
    queue: str
    ready: int  # due, and nobody has it
    waiting: int  # for time or a message
    active: int  # a worker has it
    oldest: float | None  # when the first of those that are ready became due

    def age(self, now: float) -> float:
        """Seconds that the oldest one has been ready."""
        return max(0.0, now - self.oldest) if self.oldest is not None else 0.0
