"""What routes of schedules, webhooks and triggers share: lists by name, deleting, pausing and resuming."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from starlette.requests import Request

from stepwell.client.triggers import NamedTriggers
from stepwell.server import cursor as cursors
from stepwell.server import views
from stepwell.server.caller import caller_of
from stepwell.server.runs import WhoBody

Kind = Literal["schedules", "webhooks", "triggers"]


class NamedTriggerRoutes:
    """The triggers of one kind, as the caller of a request may see and change them."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    async def page(
        self, request: Request, view_of: Callable[[Any], Any], *, workflow: str, cursor: str, limit: int
    ) -> dict[str, Any]:
        """Return the fields of a page: the views under the name of the kind, and the next cursor."""
        purpose = (self._kind, caller_of(request).principal.workspace)
        before = cursors.read_text(cursor, *purpose) if cursor else ""
        page = await self._triggers(request).list(workflow=workflow, before=before, limit=limit)
        after = cursors.write(page.next, *purpose) if page.next else None
        return {self._kind: [view_of(info) for info in page], "cursor": after}

    async def delete(self, request: Request, name: str, by: str) -> views.TriggerChanged:
        changed = await self._triggers(request).delete(name, by=caller_of(request).who(by))
        return views.TriggerChanged(name=name, changed=changed)

    async def pause(self, request: Request, name: str, body: WhoBody) -> views.TriggerChanged:
        by = caller_of(request).who(body.by)
        changed = await self._triggers(request).pause(name, by=by, reason=body.reason)
        return views.TriggerChanged(name=name, changed=changed)

    async def resume(self, request: Request, name: str, body: WhoBody) -> views.TriggerChanged:
        changed = await self._triggers(request).resume(name, by=caller_of(request).who(body.by))
        return views.TriggerChanged(name=name, changed=changed)

    def _triggers(self, request: Request) -> NamedTriggers[Any]:
        triggers: NamedTriggers[Any] = getattr(caller_of(request).engine, self._kind)
        return triggers
