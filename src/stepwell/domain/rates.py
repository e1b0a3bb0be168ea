"""Start rates: how many runs may be started in a sliding window of time.

A window is one row of the store, changed together with the runs that it counts; so all processes share it,
and a repeated (same key) or refused start counts nothing. The row holds the times of the starts. If there are
more than STARTS_KEPT, neighbours are merged at the later of their times, so a window never admits more starts
than the rate allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from stepwell.domain.commit import Identity, NewRun, Started

STARTS_KEPT = 256


class WindowKey(NamedTuple):
    name: str  # workflow default/order, user default/ann
    seconds: float


class Window(NamedTuple):
    """At most `most` starts in any `seconds`."""

    name: str
    limit: int
    seconds: float

    @property
    def key(self) -> WindowKey:
        return WindowKey(self.name, self.seconds)


class StoredRate(NamedTuple):
    """A start rate that was set while engines run. `limit` None lifts the rate that engines were given."""

    per: str  # workflow or user
    seconds: float
    limit: int | None
    by: str = ""


class RatedStart(NamedTuple):
    """Start all of these runs if the windows have room for the new ones, otherwise none."""

    runs: Sequence[NewRun]
    windows: Sequence[Window]


class Full(NamedTuple):
    """Nothing was started. Try again after `wait` seconds; None: the window cannot be read."""

    window: Window
    wait: float | None


Starts = list[tuple[float, int]]  # when and how many, oldest first
_decoder = msgspec.json.Decoder(Starts)


class Ledger:
    """The windows of some starts as they are in the store at one moment."""

    def __init__(self, rows: Mapping[WindowKey, str], now: float) -> None:
        self._now = now
        self._rows = rows
        self._starts: dict[WindowKey, Starts | None] = {}
        self._changed: set[WindowKey] = set()

    def admit(self, windows: Iterable[Window], count: int) -> Full | None:
        """Count new starts in all of these windows, or in none; returns the window that is full."""
        windows = list(windows)
        for window in windows:
            starts = self._current(window.key)
            if starts is None:
                return Full(window, None)
            too_many = sum(n for _, n in starts) + count - window.limit
            if count and too_many > 0:
                return Full(window, _room_at(starts, too_many, self._now) + window.seconds - self._now)
        for key in {window.key for window in windows} if count else ():
            starts = self._current(key)
            assert starts is not None
            starts.append((self._now, count))
            self._changed.add(key)
        return None

    def changed(self) -> list[tuple[WindowKey, str, float]]:
        """The rows to write: the starts as text, and when the last of them no longer counts."""
        rows = []
        for key in sorted(self._changed):
            starts = _fewer(self._starts[key] or [])
            rows.append((key, msgspec.json.encode(starts).decode(), starts[-1][0] + key.seconds))
        return rows

    def _current(self, key: WindowKey) -> Starts | None:
        if key not in self._starts:
            try:
                kept = _decoder.decode(self._rows.get(key, "[]"))
            except msgspec.DecodeError:
                self._starts[key] = None
            else:
                # The clock may have been set back: starts in the future count as started now.
                times = [(min(at, self._now), n) for at, n in kept]
                self._starts[key] = [(at, n) for at, n in times if at > self._now - key.seconds]
        return self._starts[key]


def _room_at(starts: Starts, too_many: int, now: float) -> float:
    """The time of the start that must leave the window; `now` if the window can never hold that many."""
    for at, count in starts:
        too_many -= count
        if too_many <= 0:
            return at
    return now


def _fewer(starts: Starts) -> Starts:
    while len(starts) > STARTS_KEPT:
        pairs = [starts[i : i + 2] for i in range(0, len(starts), 2)]
        starts = [(pair[-1][0], sum(n for _, n in pair)) for pair in pairs]
    return starts


def keys_of(calls: Iterable[RatedStart]) -> list[WindowKey]:
    """All their windows, each once, in the order in which they are locked."""
    return sorted({window.key for call in calls for window in call.windows})


def admitted(calls: Sequence[RatedStart], ledger: Ledger, known: set[Identity]) -> list[Full | None]:
    """The answer to each call. Starts in `known` have a run: they start nothing and are never refused."""
    answers: list[Full | None] = []
    for call in calls:
        new = {run.identity for run in call.runs} - known
        full = ledger.admit(call.windows, len(new))
        if full is None or not new:
            known |= new
            full = None
        answers.append(full)
    return answers


RatedAnswer = Sequence[Started] | Full
