"""Shares: how fresh runs and runs that have begun divide the slots of a worker.

Begun runs go before fresh ones; otherwise a sleep of one second would last as long as the backlog. But
thousands of timers that are due at the same instant must not lock out new work either: while both wait, a
share of the places in each claim goes to fresh tickets first. The order within each class stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def in_turn(begun: Sequence[T], fresh: Sequence[T], first: int) -> list[T]:
    """The order of a claim: the `first` fresh ones, those that have begun, the other fresh ones."""
    return [*fresh[:first], *begun, *fresh[first:]]


class FreshShare:
    """How many places of each claim go to fresh tickets: over time, this share of all places."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._due = 0.0  # the fraction of a place carried over from earlier claims

    def of(self, limit: int) -> int:
        self._due += limit * self._share
        whole = int(self._due)
        self._due -= whole
        return whole


class StartBudget:
    """How many runs a worker may begin without a claim while other runs wait for its slots.

    In proportion to the claimed runs, as the share says, and never more at once than its share of the slots.
    """

    def __init__(self, share: float, slots: int) -> None:
        self.reserved = int(slots * share)
        self._each = share / (1.0 - share)
        self._left = float(self.reserved)

    @property
    def left(self) -> int:
        return int(self._left)

    def claimed(self, count: int) -> None:
        self._left = min(self._left + count * self._each, float(self.reserved))

    def started(self, count: int) -> None:
        self._left = max(self._left - count, 0.0)
