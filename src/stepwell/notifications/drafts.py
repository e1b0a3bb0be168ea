"""Drafts: what becomes of a stored notification when it is sent."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from stepwell.channels.notification import Notification
from stepwell.domain.notifications import PendingNotification

_BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")


async def _nothing() -> None: ...


class Needless(Exception):
    """There is nothing left to send; `reason` is a code."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NotificationDraft(NamedTuple):
    """A message, ready to be sent. `withdraw` is called if it certainly was not sent."""

    notification: Notification
    needs_address: bool = False  # a mail must not go to the channel's own recipients instead
    withdraw: Callable[[], Awaitable[None]] = _nothing


class Expansion(NamedTuple):
    """Notifications that replace the stored one."""

    rows: Sequence[PendingNotification]


def one_line(text: str, most: int) -> str:
    """Return text by people as part of a subject: without line breaks, and not too long."""
    line = _BREAKS.sub(" ", text).strip()
    return line if len(line) <= most else f"{line[: most - 1]}…"
