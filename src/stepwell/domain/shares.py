"""Shares: how fresh runs and those that have begun divide the places of a worker.

What has begun goes before what is fresh, else a sleep of a second would last as long as the backlog. But
thousands of timers that are due at one instant must not lock out new work either: while both wait, a share
of the places in each claim is for fresh tickets first. Within each class the order stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def in_turn(begun: Sequence[T], fresh: Sequence[T], first: int) -> list[T]:
    """The order of a claim: so many fresh ones, those that have begun, the other fresh ones."""
    return [*fresh[:first], *begun, *fresh[first:]]


class FreshShare:
    """The places of fresh tickets in one claim after the other: over time this share of all."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._due = 0.0  # what the claims before were too small for

    def of(self, limit: int) -> int:
        self._due += limit * self._share
        whole = int(self._due)
        self._due -= whole
        return whole


class StartBudget:
    """Runs that a worker may begin without a claim while others wait for its places.

    As many as the share allows beside those that were claimed, and no more at once than it has places.
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
