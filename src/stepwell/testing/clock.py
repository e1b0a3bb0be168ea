"""FakeClock: time that moves only when a test moves it."""

from __future__ import annotations

BEGIN = 1_800_000_000.0  # a plausible date in test output


class FakeClock:
    """Both a `Clock` and the plain function that stores take: `clock()` is `clock.time()`."""

    def __init__(self, begin: float = BEGIN) -> None:
        self._now = begin
        self._elapsed = 0.0

    def __call__(self) -> float:
        return self._now

    def time(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    def advance(self, seconds: float) -> None:
        assert seconds >= 0, "time only moves forward; use set_back for a corrected wall clock"
        self._now += seconds
        self._elapsed += seconds

    def set_back(self, seconds: float) -> None:
        """Set the wall clock back, as a correction does; no time passes."""
        self._now -= seconds
