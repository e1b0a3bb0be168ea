"""Workflows: their stored definitions, and which of them accept new runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from stepwell.client.store_access import StoreAccess
from stepwell.domain.commit import Definition, WorkflowSwitch
from stepwell.domain.ids import DRAFT
from stepwell.domain.new_run import startable
from stepwell.domain.suggest import did_you_mean
from stepwell.domain.text import checked_text, clean
from stepwell.errors import UnknownWorkflow, WorkflowDisabled, excerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowInfo:
    """A workflow as lists show it: its latest version, and whether it accepts new runs."""

    name: str
    version: str = ""
    versions: tuple[str, ...] = ()  # in the order in which they were stored
    kind: str = ""
    title: str = ""
    description: str = ""
    created_at: float | None = None  # of this version
    created_by: str = ""
    enabled: bool = True
    switched_by: str = ""  # who last enabled or disabled it
    switched_at: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowVersion:
    """One stored version of a workflow, without its definition."""

    name: str
    version: str
    kind: str
    hash: str
    title: str = ""
    created_at: float | None = None
    created_by: str = ""


class Workflows:
    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    async def list(self) -> list[WorkflowInfo]:
        """All workflows of the workspace, by name; also those that were disabled and have no definition."""
        store, workspace = self._access.store, self._access.workspace
        definitions = [d for d in await store.list_definitions(workspace) if not d.name.startswith(DRAFT)]
        switches = {switch.workflow: switch for switch in await store.list_switches(workspace)}
        names = sorted({d.name for d in definitions} | switches.keys())
        return [_info(name, definitions, switches.get(name)) for name in names]

    async def versions(self, name: str) -> Sequence[WorkflowVersion]:
        access, name = self._access, checked_text(name, "workflow")
        versions = await access.store.list_definitions(access.workspace, name)
        if not versions or name.startswith(DRAFT):
            raise await self.unknown(name, "")
        return [
            WorkflowVersion(
                name=d.name,
                version=d.version,
                kind=d.kind,
                hash=d.hash,
                title=d.title,
                created_at=d.created_at or None,
                created_by=d.created_by,
            )
            for d in versions
        ]

    async def definition(self, name: str, version: str) -> Definition:
        store, workspace = self._access.store, self._access.workspace
        checked_text(name, "workflow"), checked_text(version, "version")
        stored = None if name.startswith(DRAFT) else await store.read_definition(workspace, name, version)
        if stored is None:
            raise self._unknown(name, version, await store.list_definitions(workspace))
        return stored

    def _unknown(self, name: str, version: str, listed: Sequence[Definition]) -> UnknownWorkflow:
        versions = [d.version for d in listed if d.name == name and not name.startswith(DRAFT)]
        if versions:
            return UnknownWorkflow(
                f"no workflow {excerpt(name)} version {excerpt(version)} is known",
                known=", ".join(f"{name} version {version}" for version in versions),
            )
        names = sorted({d.name for d in listed if not d.name.startswith(DRAFT)})
        return UnknownWorkflow(
            f"no workflow {excerpt(name)} is known",
            hint=did_you_mean(name, names),
            known=", ".join(names) or "none",
        )

    async def unknown(self, name: str, version: str) -> UnknownWorkflow:
        """Return the error for an unknown workflow or version. It suggests known ones."""
        return self._unknown(name, version, await self._access.store.list_definitions(self._access.workspace))

    async def switch(self, workflow: Any, *, enabled: bool, by: str, reason: str) -> bool:
        name = await self._known(workflow)
        text = msgspec.json.encode(clean(reason))
        row = WorkflowSwitch(self._access.workspace, name, enabled, checked_text(by, "by"), text)
        changed, repeated = await self._access.retry_call(lambda: self._access.store.switch(row))
        return changed or repeated

    async def _known(self, workflow: Any) -> str:
        """The name of a workflow; a name must be known, so that a typing error is noticed."""
        if not isinstance(workflow, str):
            startable(workflow)
            return str(workflow.definition.name)
        known = [info.name for info in await self.list()]
        if checked_text(workflow, "workflow") not in known:
            raise UnknownWorkflow(
                f"no workflow {excerpt(workflow)} is known",
                hint=did_you_mean(workflow, known),
                known=", ".join(known) or "none",
            )
        return workflow

    async def refusal(self, workflow: str) -> WorkflowDisabled:
        """The error for a start of a disabled workflow: who disabled it, when and why."""
        switches = await self._access.store.list_switches(self._access.workspace)
        switch = next((s for s in switches if s.workflow == workflow and not s.enabled), None)
        text = f"workflow {excerpt(workflow)} is disabled and accepts no new runs"
        if switch is None:  # it was enabled since
            return WorkflowDisabled(text, hint="it was enabled meanwhile: try again")
        reason = msgspec.json.decode(switch.reason)
        when = datetime.fromtimestamp(switch.at, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        who = f" ({switch.by or 'somebody'}, {when}{f': {reason}' if reason else ''})"
        return WorkflowDisabled(text + who, workflow=workflow)


def _info(name: str, definitions: Sequence[Definition], switch: WorkflowSwitch | None) -> WorkflowInfo:
    versions = [d for d in definitions if d.name == name]
    last = versions[-1] if versions else Definition(name=name, version="", kind="")
    return WorkflowInfo(
        name=name,
        version=last.version,
        versions=tuple(d.version for d in versions),
        kind=last.kind,
        title=last.title,
        description=last.description,
        created_at=last.created_at or None,
        created_by=last.created_by,
        enabled=switch is None or switch.enabled,
        switched_by=switch.by if switch else "",
        switched_at=switch.at if switch else None,
        reason=msgspec.json.decode(switch.reason) if switch else "",
    )
