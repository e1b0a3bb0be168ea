"""Definitions of workflows, and the codec check: the records that belong to no run."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.domain.commit import Definition, WorkflowSwitch
from stepwell.store.memory.tables import Tables
from stepwell.store.memory.verb import transaction


class MemoryDefinitions(Tables):
    @transaction("define")
    async def put_definitions(self, definitions: Sequence[Definition]) -> None:
        for definition in definitions:
            key = (definition.workspace, definition.name, definition.version)
            current = self._definitions.get(key)
            if current is None or current.content != definition.content:
                self._put(definition)

    def _put(self, definition: Definition) -> None:
        key = (definition.workspace, definition.name, definition.version)
        first = self._definitions.pop(key, None)
        created = (first.created_at, first.created_by) if first else (self._clock(), definition.created_by)
        self._definitions[key] = replace(definition, created_at=created[0], created_by=created[1])

    @transaction("define")
    async def swap_definition(self, definition: Definition, *, expected: str) -> bool:
        key = (definition.workspace, definition.name, definition.version)
        current = self._definitions.get(key)
        if current is None or current.content != definition.content:
            if ("" if current is None else current.hash) != expected:
                return False
            self._put(definition)
        return True

    async def read_definition(self, workspace: str, name: str, version: str = "") -> Definition | None:
        versions = [
            d
            for d in self._definitions.values()
            if (d.workspace, d.name) == (workspace, name) and version in ("", d.version)
        ]
        return versions[-1] if versions else None

    @transaction("define")
    async def drop_definitions(self, workspace: str, *names: str) -> int:
        dropped = [key for key in self._definitions if key[0] == workspace and key[1] in names]
        for key in dropped:
            del self._definitions[key]
        return len(dropped)

    async def list_definitions(self, workspace: str, *names: str) -> Sequence[Definition]:
        own = [d for d in self._definitions.values() if d.workspace == workspace]
        return [d for d in own if not names or d.name in names]

    @transaction("switch")
    async def switch(self, switch: WorkflowSwitch) -> bool:
        key = (switch.workspace, switch.workflow)
        current = self._switches.get(key)
        if switch.enabled == (current is None or current.enabled):
            return False
        self._switches[key] = switch._replace(at=self._clock())
        return True

    async def list_switches(self, workspace: str) -> Sequence[WorkflowSwitch]:
        return [self._switches[key] for key in sorted(self._switches) if key[0] == workspace]

    async def read_codec_check(self) -> bytes | None:
        return self._codec_check

    async def write_codec_check(self, value: bytes, *, expected: bytes | None) -> bool:
        if self._codec_check not in (None, expected):
            return False
        self._codec_check = value
        return True
