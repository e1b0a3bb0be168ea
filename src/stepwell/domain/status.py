"""A run's status and the moves between them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from stepwell.errors import InvalidInput, excerpt


class Status(StrEnum):
    PENDING = "pending"  # accepted, no worker has had it
    RUNNING = "running"  # a worker owns it, or it only waits for a retry
    SUSPENDED = "suspended"  # waits for time, a message, a child or a remote step
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.TIMED_OUT})

_LIVE = frozenset({Status.RUNNING, Status.SUSPENDED})

MOVES: dict[Status, frozenset[Status]] = {
    Status.PENDING: frozenset({Status.RUNNING, Status.CANCELLED, Status.TIMED_OUT, Status.FAILED}),
    Status.RUNNING: TERMINAL | {Status.SUSPENDED},
    Status.SUSPENDED: TERMINAL | {Status.RUNNING},
    Status.COMPLETED: frozenset(),
    Status.FAILED: _LIVE,  # by an explicit retry only
    Status.CANCELLED: frozenset(),
    Status.TIMED_OUT: _LIVE,  # as failed
}

RETRYABLE = frozenset({Status.FAILED, Status.TIMED_OUT})


_NAMES = frozenset(status.value for status in Status)


def checked_statuses(given: object) -> tuple[Status, ...]:
    """Statuses by their names, as people write them; InvalidInput when one is none."""
    found: list[Status] = []
    for status in given if isinstance(given, Iterable) and not isinstance(given, str) else (given,):
        if not isinstance(status, str) or status not in _NAMES:
            raise InvalidInput(f"{excerpt(status)} is no status", hint=f"it is one of {', '.join(Status)}")
        found.append(Status(status))
    return tuple(found)


def may_move(before: Status, after: Status) -> bool:
    """The published automaton: terminal is final, except that one that failed or timed out may be retried."""
    return before == after or after in MOVES[before]
