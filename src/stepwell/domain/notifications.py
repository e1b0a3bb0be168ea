"""Notifications that wait in the database until a process has sent them.

One is written in the transaction of what it is about: the commit that opens an approval, or the check that
finds an alert. So it is neither lost nor written twice. A process that takes one to send it has it for a
while; if it dies, another one sends it again, under the same id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

APPROVAL = "approval"
ALERT = "alert"
TAKEN_AT_ONCE = 10
TAKEN_SECONDS = 300.0  # how long a process has to send one; then another one takes it, and sends it again
SEND_SECONDS_MAX = 240.0  # how long a channel may take for one: less than a process has
GIVEN_UP_SECONDS = 86_400.0  # after that nobody tries any longer
KEPT_SECONDS = 7 * 86_400.0  # after it was sent or given up
_DELAY_MAX = 900.0


class PendingNotification(msgspec.Struct, frozen=True, kw_only=True):
    """One that has to be sent. `body` is JSON that only its kind reads, without values of a run."""

    id: str
    kind: str  # approval or alert
    channel: str
    body: bytes
    workspace: str
    run_id: str = ""
    # The store sets these.
    created_at: float = 0.0
    attempt: int = 0  # counts how often it was taken
    ended_at: float | None = None  # when it was sent, or given up
    error: str = ""  # of the last attempt; after the end: why it was given up


class TakenNotifications(NamedTuple):
    """Those that the caller has to send now. The next is due in `next_in` seconds; None: there is none."""

    rows: Sequence[PendingNotification]
    next_in: float | None
    now: float


def retry_delay(row: PendingNotification, now: float, after: float | None) -> float | None:
    """Seconds until the next attempt; None: it is too old. `after` is what the receiver asked for."""
    if now - row.created_at > GIVEN_UP_SECONDS:
        return None
    backoff: float = min(_DELAY_MAX, 2.0 * 2 ** min(row.attempt - 1, 20))
    return max(backoff, min(after or 0.0, _DELAY_MAX))
