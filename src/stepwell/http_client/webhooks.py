"""HttpWebhooks: the webhooks of the workspace, behind a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import msgspec
from msgspec import Raw

from stepwell.client.webhooks import BODY, WebhookInfo, WebhookOptions, Webhooks
from stepwell.domain.codec import encoded_by_type
from stepwell.domain.duration import seconds
from stepwell.domain.new_run import startable
from stepwell.domain.text import checked_text
from stepwell.http_client.connection import Connection
from stepwell.http_client.rows import Fields, fields_of, row_of
from stepwell.http_client.triggers import HttpNamedTriggers

if TYPE_CHECKING:
    from stepwell.client.client import Client


class HttpWebhooks(HttpNamedTriggers[WebhookInfo], Webhooks):
    _plural = "webhooks"

    def __init__(self, client: Client, connection: Connection) -> None:
        super().__init__(client, client)
        self._connection = connection

    async def create(
        self, name: str, workflow: Any = None, input: Any = BODY, **options: Unpack[WebhookOptions]
    ) -> WebhookInfo:
        if workflow is not None and not isinstance(workflow, str):
            startable(workflow)
            workflow = workflow.definition.name
        body: dict[str, Any] = {"name": checked_text(name, "name"), "workflow": workflow, **options}
        body["input"] = Raw(encoded_by_type(input))
        for field in ("tolerance", "wait", "timeout"):
            if body.get(field) is not None:
                body[field] = seconds(body[field], name=field)
        answer = await self._connection.call("POST", "/webhooks", body=body, repeat=False)
        return self._row(fields_of(answer.content))

    def _row(self, fields: Fields) -> WebhookInfo:
        return row_of(WebhookInfo, fields, input=msgspec.json.decode(fields["input"]))
