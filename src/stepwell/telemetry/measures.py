"""Measures: counts and durations of one process, cheap enough for the hot path.

A worker owns its measures, and its parts add to them; metrics read them. Nothing here knows a workspace,
a workflow or a payload.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0)
SIZES = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0)


class Histogram:
    """How many values were at or below each bound."""

    __slots__ = ("_counts", "bounds", "count", "sum")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.count = 0
        self.sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self.bounds, value)] += 1
        self.count += 1
        self.sum += value

    def add_all(self, values: Sequence[float]) -> None:
        """Add values. They are sorted, so that thousands cost one search per bound."""
        ordered, before = sorted(values), 0
        for place, bound in enumerate(self.bounds):
            upto = bisect_right(ordered, bound)
            self._counts[place] += upto - before
            before = upto
        self._counts[-1] += len(ordered) - before
        self.count += len(ordered)
        self.sum += sum(ordered)

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Return each bound with the number of values up to it."""
        total = 0
        for bound, count in zip(self.bounds, self._counts, strict=False):
            total += count
            yield bound, total


class WorkerMeasures:
    """What one worker has counted and timed since its process began."""

    def __init__(self) -> None:
        self.claims = 0  # answered claims
        self.claimed = 0  # tickets claimed
        self.leases_lost = 0
        self.batches = Histogram(SIZES)  # commits per batch
        self.batch_seconds = Histogram()
        self._step_seconds = {"completed": Histogram(), "failed": Histogram()}
        self.completed: list[float] = []  # seconds of attempts, not yet in the histogram
        self.run_seconds: dict[str, Histogram] = {}  # by status, from the first claim to the end

    def run_ended(self, status: str, seconds: float) -> None:
        if status not in self.run_seconds:
            self.run_seconds[status] = Histogram()
        self.run_seconds[status].add(seconds)

    @property
    def step_seconds(self) -> dict[str, Histogram]:
        """Durations of attempts, by how they ended."""
        self.settle()
        return self._step_seconds

    def step_failed(self, seconds: float) -> None:
        self._step_seconds["failed"].add(seconds)

    def settle(self) -> None:
        """Add the attempts since the last call to the histogram. A step itself only appends its seconds."""
        seconds, self.completed = self.completed, []
        if seconds:
            self._step_seconds["completed"].add_all(seconds)
