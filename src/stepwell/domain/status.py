"""Status: the states of a run, and which may follow which."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from stepwell.errors import InvalidInput, excerpt


class Status(StrEnum):
    PENDING = "pending"  # accepted, never owned by a worker
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


def checked_statuses(names: object) -> tuple[Status, ...]:
    """Statuses by their names, as people write them; InvalidInput if one is not a status."""
    statuses: list[Status] = []
    for name in names if isinstance(names, Iterable) and not isinstance(names, str) else (names,):
        if not isinstance(name, str) or name not in _NAMES:
            raise InvalidInput(f"{excerpt(name)} is not a status", hint=f"use one of {', '.join(Status)}")
        statuses.append(Status(name))
    return tuple(statuses)


def may_move(before: Status, after: Status) -> bool:
    """The published automaton: a terminal status is final, but a failed or timed-out run may be retried."""
    return before == after or after in MOVES[before]
