"""HttpWorkflows and HttpHolds: the workflows that a server knows, and what operators hold there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from stepwell.client.operations import HoldInfo, Holds
from stepwell.client.store_access import StoreAccess
from stepwell.client.workflows import WorkflowInfo, Workflows, WorkflowVersion
from stepwell.domain.commit import Definition
from stepwell.domain.new_run import startable
from stepwell.domain.scope_holds import HoldKind, checked_scope
from stepwell.domain.text import checked_text, clean
from stepwell.http_client.connection import Connection
from stepwell.http_client.rows import fields_of, flag_of, listed, row_of


class HttpWorkflows(Workflows):
    def __init__(self, access: StoreAccess, connection: Connection) -> None:
        super().__init__(access)
        self._connection = connection

    async def list(self) -> list[WorkflowInfo]:
        rows = listed(await self._connection.get("/workflows"), "workflows")
        return [row_of(WorkflowInfo, fields) for fields in rows]

    async def versions(self, name: str) -> Sequence[WorkflowVersion]:
        path = f"/workflows/{_quoted(name)}/versions"
        return [
            row_of(WorkflowVersion, fields) for fields in listed(await self._connection.get(path), "versions")
        ]

    async def definition(self, name: str, version: str) -> Definition:
        params = {"version": checked_text(version, "version")}
        fields = fields_of(await self._connection.get(f"/workflows/{_quoted(name)}", params))
        body = bytes(fields["definition"])
        return row_of(Definition, fields, workspace=self._access.workspace, body=body)

    async def switch(self, workflow: Any, *, enabled: bool, by: str, reason: str) -> bool:
        if not isinstance(workflow, str):
            startable(workflow)
            workflow = workflow.definition.name
        name = _quoted(workflow)
        body = {"by": checked_text(by, "by"), "reason": clean(reason)}
        answer = await self._connection.post(f"/workflows/{name}/{'enable' if enabled else 'disable'}", body)
        return flag_of(answer.content, "changed") or answer.repeated


def _quoted(workflow: str) -> str:
    return quote(checked_text(workflow, "workflow"), safe="")


class HttpHolds(Holds):
    def __init__(self, access: StoreAccess, connection: Connection) -> None:
        super().__init__(access)
        self._connection = connection

    async def list(self) -> list[HoldInfo]:
        rows = listed(await self._connection.get("/holds"), "holds")
        return [row_of(HoldInfo, fields) for fields in rows]

    async def change(self, kind: HoldKind, name: str, *, held: bool, by: str, reason: str) -> bool:
        checked_scope(kind, checked_text(name, "name"))
        body = {"kind": kind, "name": name, "by": checked_text(by, "by"), "reason": clean(reason)}
        answer = await self._connection.post("/holds" if held else "/holds/release", body)
        return flag_of(answer.content, "changed") or answer.repeated
