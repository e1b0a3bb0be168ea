"""NamedTriggers: the verbs that all types of triggers share. A type adds how it is created and shown."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from stepwell.client.store_access import StoreAccess
from stepwell.client.workflows import Workflows
from stepwell.domain.commit import Definition
from stepwell.domain.ids import DRAFT
from stepwell.domain.new_run import startable
from stepwell.domain.search import Page
from stepwell.domain.suggest import did_you_mean
from stepwell.domain.text import checked_text, clean
from stepwell.domain.triggers.trigger import Pause, Trigger, TriggerFilter
from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import Conflict, InvalidInput, TriggerExists, TriggerNotFound, excerpt

Info = TypeVar("Info")

PAGE_MAX = 1000
_SUGGESTED_MAX = 500  # names to choose a suggestion from


class NamedTriggers(Generic[Info]):
    """The triggers of one type in a workspace, each with a name of its own."""

    _type: ClassVar[str]  # also what people call one of them

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    async def list(self, *, workflow: str = "", before: str = "", limit: int = 100) -> Page[Info]:
        """List the triggers of this workspace by name. Pass `next` of a page as `before` of the following."""
        count = whole_number(limit, "limit", least=1, most=PAGE_MAX)
        wanted = TriggerFilter(
            type=self._type,
            workspace=self._access.workspace,
            workflow=checked_text(workflow, "workflow"),
            after=checked_text(before, "before"),
            limit=count + 1,
        )
        rows = await self._access.store.list_triggers(wanted)
        more = rows[count - 1].name if len(rows) > count else ""
        return Page([self._info(row) for row in rows[:count]], more)

    async def get(self, name: str) -> Info:
        """Return a trigger by name. TriggerNotFound: there is none."""
        return self._info(await self._read(name))

    async def delete(self, name: str, *, by: str = "") -> bool:
        """Delete a trigger. The runs that it started continue. False if there is none."""
        checked_text(by, "by")
        place = (self._access.workspace, self._type, checked_text(name, "name"))
        if await self._access.store.read_trigger(*place) is None:
            return False
        dropped, repeated = await self._access.retry_call(lambda: self._access.store.drop_trigger(*place))
        return dropped or repeated

    async def pause(self, name: str, *, by: str = "", reason: str = "") -> bool:
        """Start nothing until `resume`. False if it was paused."""
        return await self._switch(name, by=by, reason=reason, paused=True)

    async def resume(self, name: str, *, by: str = "") -> bool:
        """Let a paused trigger start runs again. False if it was not paused."""
        return await self._switch(name, by=by, reason="", paused=False)

    # What a type says

    def _info(self, trigger: Trigger) -> Info:
        """Return the trigger as people see it."""
        raise NotImplementedError

    def _switched(self, trigger: Trigger, now: float) -> Trigger:
        """Return the trigger as pausing or resuming changes it."""
        return trigger

    # Parts

    async def _switch(self, name: str, *, by: str, reason: str, paused: bool) -> bool:
        checked_text(by, "by")
        while True:
            trigger, now = await self._read(name), await self._access.store.now()
            if paused == (trigger.paused is not None):
                return False
            mark = msgspec.json.encode(Pause(by=by, reason=clean(reason), at=now)) if paused else None
            if await self._change(trigger, self._switched(replace(trigger, paused=mark), now), by, now):
                return True

    async def _read(self, name: str) -> Trigger:
        store, workspace = self._access.store, self._access.workspace
        trigger = await store.read_trigger(workspace, self._type, checked_text(name, "name"))
        if trigger is None:
            wanted = TriggerFilter(type=self._type, workspace=workspace, limit=_SUGGESTED_MAX)
            names = [row.name for row in await store.list_triggers(wanted)]
            raise TriggerNotFound(f"there is no {self._type} {excerpt(name)}", hint=did_you_mean(name, names))
        return trigger

    def _check_own(self, trigger: Trigger) -> None:
        """Refuse to change a trigger that a workflow declares: storing the workflow would undo the change."""
        if trigger.origin:
            raise Conflict(
                f"{self._type} {excerpt(trigger.name)} is declared by workflow {excerpt(trigger.origin)}",
                hint="change it there; it can be paused here",
                origin=trigger.origin,
            )

    async def _definition(self, workflow: Any, version: str) -> Definition:
        if not isinstance(workflow, str):
            startable(workflow)
            workflow = workflow.definition.name
        name, version = checked_text(workflow, "workflow"), checked_text(version, "version")
        definition = await self._access.store.read_definition(self._access.workspace, name, version)
        if definition is None or name.startswith(DRAFT):
            raise await Workflows(self._access).unknown(name, version)
        return definition

    async def _create(self, trigger: Trigger) -> Info:
        if not await self._put(trigger, 0):
            raise TriggerExists(f"a {self._type} {excerpt(trigger.name)} exists", name=trigger.name)
        return self._info(trigger)

    async def _change(self, trigger: Trigger, changed: Trigger, by: str, now: float) -> bool:
        """Store the changed trigger. False if somebody changed it meanwhile."""
        revision = trigger.revision + 1
        row = replace(changed, revision=revision, updated_at=now, updated_by=by)
        return await self._put(row, trigger.revision)

    async def _put(self, trigger: Trigger, expected: int) -> bool:
        store = self._access.store
        put = await self._access.call_idempotent(lambda: store.put_trigger(trigger, expected=expected))
        self._access.notifier.notify_work()
        return put


def checked_name(name: str, type: str) -> str:
    """Check the name of a trigger. InvalidInput says what a name may be."""
    if not checked_text(name, "name").strip() or "/" in name or len(name) > 200:
        raise InvalidInput(
            f"a {type} cannot be called {excerpt(name)}",
            hint="use 1 to 200 characters, without a slash",
            field="name",
        )
    return name
