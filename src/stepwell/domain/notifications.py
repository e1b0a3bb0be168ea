"""Notifications: rows that wait in the database until a process has sent them.

A notification is written in the transaction of its cause: the commit that opens an approval, or the check
that finds an alert. So none is lost or written twice. A process takes one to send it; if the process dies,
another one sends it again, under the same id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

APPROVAL = "approval"
ALERT = "alert"
TAKEN_AT_ONCE = 10
TAKEN_SECONDS = 300.0  # how long a process has to send one, until another takes it
SEND_SECONDS_MAX = 240.0  # how long a channel may take: less than TAKEN_SECONDS
GIVEN_UP_SECONDS = 86_400.0  # after that it is given up
KEPT_SECONDS = 7 * 86_400.0  # how long a row stays after it was sent or given up
_DELAY_MAX = 900.0


class PendingNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification to send. `body` is JSON that only its kind reads; it contains no values of a run."""

    id: str
    kind: str  # approval | alert
    channel: str
    body: bytes
    workspace: str
    run_id: str = ""
    # The store sets these.
    created_at: float = 0.0
    attempt: int = 0  # how often it was taken
    ended_at: float | None = None  # when it was sent, or given up
    error: str = ""  # error code of the last attempt; at the end, why it was given up


class TakenNotifications(NamedTuple):
    """Notifications that the caller must send now. The next is due in `next_in` seconds (None: none is)."""

    rows: Sequence[PendingNotification]
    next_in: float | None
    now: float


def retry_delay(row: PendingNotification, now: float, after: float | None) -> float | None:
    """Return the seconds until the next attempt, or None if the notification is too old.

    `after` is the delay that the receiver asked for.
    """
    if now - row.created_at > GIVEN_UP_SECONDS:
        return None
    backoff: float = min(_DELAY_MAX, 2.0 * 2 ** min(row.attempt - 1, 20))
    return max(backoff, min(after or 0.0, _DELAY_MAX))
