"""Approval links: one approval, decided by one person without a key.

A link is a credential for one wait and one assignee. It is used once and expires. Its text is shown once
and opens nothing else. The decision is recorded as made by the assignee.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

from stepwell.client.keys import NewCredential, checked_roles, issue
from stepwell.client.store_access import StoreAccess
from stepwell.domain.commit import LogRow
from stepwell.domain.duration import Duration, seconds
from stepwell.domain.events import KIND, WaitOpened
from stepwell.domain.ids import RunId
from stepwell.domain.state import OpenWait
from stepwell.domain.text import checked_text
from stepwell.errors import InvalidInput

LASTING = "7d"


def checked_assignee(assignee: str) -> str:
    if not checked_text(assignee, "assignee").strip():
        raise InvalidInput("a link is for one person", hint="name the assignee", field="assignee")
    return assignee


async def create(
    access: StoreAccess,
    run_id: RunId,
    wait: OpenWait,
    assignee: str,
    *,
    opened_at: int,
    roles: Collection[str],
    expires: Duration,
    by: str,
) -> NewCredential:
    """Create a link for an open approval that the assignee may decide."""
    return await issue(
        access,
        "link",
        name=assignee,
        principal="person",
        scopes=("approve",),
        roles=checked_roles(roles),
        run_id=run_id,
        path=wait.path,
        seq=opened_at,
        expires=seconds(expires, name="expires"),
        by=by,
    )


async def opened_at(log: AsyncIterator[LogRow], path: str) -> int:
    """Return the seq of the event that last opened the wait at this path."""
    kind = KIND[WaitOpened]
    return max([row.seq async for row in log if row.kind == kind and row.path == path], default=0)
