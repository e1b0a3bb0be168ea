"""The inbox of a run: all messages that its owner has not taken yet."""

from __future__ import annotations

from stepwell.domain.commit import InboxRow
from stepwell.domain.ids import RunId
from stepwell.store.base import INBOX_READ_MAX, Inbox


async def read_inbox(store: Inbox, run_id: RunId) -> list[InboxRow]:
    """Return the messages, oldest first. What leaves the inbox meanwhile is in the log afterwards."""
    messages: list[InboxRow] = []
    while True:
        page = await store.read_inbox(run_id, after=messages[-1].n if messages else 0)
        messages += page
        if len(page) < INBOX_READ_MAX:
            return messages
