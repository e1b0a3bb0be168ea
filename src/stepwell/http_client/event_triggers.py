"""HttpEventTriggers: the triggers of events and sources of the workspace, behind a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import msgspec
from msgspec import Raw

from stepwell.client.event_triggers import PAYLOAD, EventTriggerInfo, EventTriggerOptions, EventTriggers
from stepwell.domain.codec import encoded_by_type
from stepwell.domain.duration import seconds
from stepwell.domain.new_run import startable
from stepwell.domain.text import checked_text
from stepwell.http_client.connection import Connection
from stepwell.http_client.rows import Fields, fields_of, row_of
from stepwell.http_client.triggers import HttpNamedTriggers

if TYPE_CHECKING:
    from stepwell.client.client import Client


class HttpEventTriggers(HttpNamedTriggers[EventTriggerInfo], EventTriggers):
    _plural = "triggers"

    def __init__(self, client: Client, connection: Connection) -> None:
        super().__init__(client)
        self._connection = connection

    async def create(
        self, name: str, workflow: Any, input: Any = PAYLOAD, **options: Unpack[EventTriggerOptions]
    ) -> EventTriggerInfo:
        if not isinstance(workflow, str):
            startable(workflow)
            workflow = workflow.definition.name
        body: dict[str, Any] = {"name": checked_text(name, "name"), "workflow": workflow, **options}
        body["input"] = Raw(encoded_by_type(input))
        if "config" in body:
            body["config"] = Raw(encoded_by_type(body["config"]))
        for field in ("every", "timeout"):
            if body.get(field) is not None:
                body[field] = seconds(body[field], name=field)
        answer = await self._connection.call("POST", "/triggers", body=body, repeat=False)
        return self._row(fields_of(answer.content))

    def _row(self, fields: Fields) -> EventTriggerInfo:
        values = {name: msgspec.json.decode(fields[name]) for name in ("input", "config")}
        return row_of(EventTriggerInfo, fields, **values)
