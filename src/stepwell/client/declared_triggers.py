"""DeclaredTriggers: keeps the stored triggers of a workflow equal to those that it declares.

Their names begin with the name of the workflow, which is also their `origin`. A pause by a person stays,
and so does the path of a webhook. Every call may be repeated: after a crash, the next one completes the
work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from stepwell.client.event_triggers import PAYLOAD
from stepwell.client.schedules import timed
from stepwell.client.webhooks import BODY, same_address
from stepwell.domain.new_run import NO_INPUT
from stepwell.domain.triggers.declared import DECLARED_MAX, DeclaredTrigger
from stepwell.domain.triggers.schedule import ScheduleSettings
from stepwell.domain.triggers.trigger import SCHEDULE, Trigger, TriggerFilter
from stepwell.domain.triggers.webhook import WEBHOOK
from stepwell.errors import TriggerExists, excerpt

if TYPE_CHECKING:
    from stepwell.client.client import Client

_LISTED = 4 * DECLARED_MAX


class DeclaredTriggers:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def declare(self, workflow: str, declared: Sequence[DeclaredTrigger], *, by: str = "") -> None:
        """Create, change and remove triggers of a workflow until they are those that it declares.

        If one of them is wrong, nothing is written. TriggerExists: somebody created a trigger with that
        name.
        """
        rows = [await self._row(workflow, each, by) for each in declared]
        left = {trigger.place: trigger for trigger in await self._existing(workflow)}
        for row in rows:
            left.pop(row.place, None)
            await self._put(row, by)
        for trigger in left.values():
            await self._drop(trigger)

    async def remove(self, workflow: str) -> None:
        """Remove the triggers that a workflow declares. The runs that they started continue."""
        for trigger in await self._existing(workflow):
            await self._drop(trigger)

    async def _existing(self, workflow: str) -> Sequence[Trigger]:
        wanted = TriggerFilter(origin=workflow, workspace=self._client.workspace, limit=_LISTED)
        return await self._client.store.list_triggers(wanted)

    async def _drop(self, trigger: Trigger) -> None:
        store = self._client.store
        await self._client.call_idempotent(lambda: store.drop_trigger(*trigger.place))

    async def _row(self, workflow: str, declared: DeclaredTrigger, by: str) -> Trigger:
        """Return the trigger as it would be created."""
        client, name = self._client, f"{workflow}.{declared.id}".replace("/", "-")
        options: dict[str, Any] = {**declared.options, "by": by}
        given = declared.input
        if declared.kind == "schedule":
            return await client.schedules.built(name, workflow, given, options, origin=workflow)
        if declared.kind == "webhook":
            given = BODY if given is NO_INPUT else given
            return await client.webhooks.built(name, workflow, given, options, origin=workflow)
        given = PAYLOAD if given is NO_INPUT else given
        return await client.triggers.built(name, workflow, given, options, origin=workflow)

    async def _put(self, row: Trigger, by: str) -> None:
        store = self._client.store
        while True:
            current = await store.read_trigger(*row.place)
            if current is not None and current.origin != row.origin:
                raise TriggerExists(
                    f"{row.origin} declares the {row.type} {excerpt(row.name)}, which exists",
                    hint="delete that one, or give the declared one another id",
                    name=row.name,
                )
            changed = row if current is None else _changed(current, row)
            if changed is current or await self._swap(changed, 0 if current is None else current.revision):
                return
            # Another process declares it at the same time: read it again.

    async def _swap(self, trigger: Trigger, expected: int) -> bool:
        store = self._client.store
        put = await self._client.call_idempotent(lambda: store.put_trigger(trigger, expected=expected))
        self._client.notifier.notify_work()
        return put


def _changed(current: Trigger, row: Trigger) -> Trigger:
    """Return what the stored trigger becomes; the same object if nothing changes."""
    settings, match = row.settings, row.match
    if row.type == SCHEDULE:
        before = msgspec.json.decode(current.settings, type=ScheduleSettings)
        wanted = replace(msgspec.json.decode(settings, type=ScheduleSettings), anchor=before.anchor)
        settings = msgspec.json.encode(wanted)
    elif row.type == WEBHOOK:
        match = same_address(current, row)
    mine = (row.workflow, row.version, settings, row.start, match)
    if mine == (current.workflow, current.version, current.settings, current.start, current.match):
        return current
    changed = replace(
        current,
        workflow=row.workflow,
        version=row.version,
        settings=settings,
        start=row.start,
        match=match,
        revision=current.revision + 1,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
    )
    if row.type == SCHEDULE and settings != current.settings:
        return timed(changed, msgspec.json.decode(settings, type=ScheduleSettings), row.updated_at)
    begins = current.next_at is None and current.paused is None
    return replace(changed, next_at=row.next_at) if begins else changed
