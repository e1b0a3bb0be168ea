"""FakeClock: time that moves only when a test says so."""

from __future__ import annotations

BEGIN = 1_800_000_000.0  # a date that looks real in a failure's output


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
        assert seconds >= 0, "time passes; use set_back for a clock that is wrong"
        self._now += seconds
        self._elapsed += seconds

    def set_back(self, seconds: float) -> None:
        """Somebody corrects the wall clock; no time passes."""
        self._now -= seconds
