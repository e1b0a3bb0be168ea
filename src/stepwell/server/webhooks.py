"""Routes that manage webhooks, addresses that start workflows. What is sent there is in `deliveries.py`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from stepwell.client.webhooks import BODY, WebhookInfo
from stepwell.server import views
from stepwell.server.caller import caller_of
from stepwell.server.named_triggers import NamedTriggerRoutes
from stepwell.server.runs import PAGE_MAX, RequestBody, WhoBody

WebhookName = Annotated[str, Path(max_length=200, description="name of a webhook", examples=["refunds"])]

_ROUTES = NamedTriggerRoutes("webhooks")


class WebhookBody(RequestBody):
    name: str = Field(max_length=200)
    workflow: str | None = Field(
        default=None, max_length=500, description="the workflow that a request starts"
    )
    version: str = Field(default="", max_length=500, description="empty: the latest")
    event: str = Field(default="", max_length=500, description="publish this event instead")
    event_key: str = Field(default="", max_length=500, examples=["{{trigger.body.order}}"])
    scheme: str = Field(
        default="standard", max_length=20, description="standard, hmac, bearer, basic or none"
    )
    secret: str = Field(default="", max_length=200, description="name of the secret of the sender")
    header: str = Field(default="", max_length=100, description="hmac: where the signature is")
    id_header: str = Field(default="", max_length=100, description="where the delivery id is")
    path: str = Field(default="", max_length=100, description="how its address begins, for people")
    tolerance: str | float = Field(default=300.0, description="how far the sender's clock may be off")
    reply: str = Field(default="accepted", max_length=20, description="accepted, or result")
    wait: str | float = Field(default=30.0, description="how long a sender waits for a result")
    input: Any = Field(default=BODY, description="may contain {{trigger.body.x}}, a value of the request")
    tags: dict[str, str] | None = None
    queue: str = Field(default="", max_length=500)
    priority: int | None = None
    timeout: str | float | None = None
    by: str = Field(default="", max_length=500, description="local mode only: who does it")

    def options(self) -> dict[str, Any]:
        left_out = {"name", "workflow", "input", "by"}
        return {name: getattr(self, name) for name in self.model_fields_set - left_out}


class WebhookView(BaseModel):
    """A webhook. A sender needs its path and its secret."""

    name: str
    path: str = Field(description="where requests are sent, below the address of this server")
    workflow: str
    version: str
    event: str
    event_key: str
    scheme: str
    secret: str = Field(description="the name of the secret, not its value")
    header: str
    id_header: str
    tolerance: float
    reply: str
    wait: float
    input: Any
    tags: dict[str, str]
    queue: str
    priority: int | None
    timeout: float | None
    paused: bool
    paused_by: str
    reason: str
    origin: str = Field(description="the workflow that declares it")
    created_at: datetime
    created_by: str


class WebhookPage(BaseModel):
    webhooks: list[WebhookView]
    cursor: str | None


async def list_webhooks(
    request: Request,
    workflow: Annotated[str, Query(max_length=500)] = "",
    cursor: Annotated[str, Query(max_length=500)] = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> WebhookPage:
    """List the webhooks by name."""
    page = await _ROUTES.page(request, view_of, workflow=workflow, cursor=cursor, limit=limit)
    return WebhookPage(**page)


async def create_webhook(request: Request, body: WebhookBody) -> WebhookView:
    """Create a webhook with a path that cannot be guessed."""
    caller = caller_of(request)
    info = await caller.engine.webhooks.create(
        body.name, body.workflow, body.input, **body.options(), by=caller.who(body.by)
    )
    return view_of(info)


async def get_webhook(request: Request, webhook: WebhookName) -> WebhookView:
    """Return a webhook with its path."""
    return view_of(await caller_of(request).engine.webhooks.get(webhook))


async def delete_webhook(
    request: Request,
    webhook: WebhookName,
    by: Annotated[str, Query(max_length=500, description="local mode only: who deletes it")] = "",
) -> views.TriggerChanged:
    """Delete a webhook; its path no longer works, and its runs continue."""
    return await _ROUTES.delete(request, webhook, by)


async def pause_webhook(request: Request, webhook: WebhookName, body: WhoBody) -> views.TriggerChanged:
    """Refuse requests until it is resumed."""
    return await _ROUTES.pause(request, webhook, body)


async def resume_webhook(request: Request, webhook: WebhookName, body: WhoBody) -> views.TriggerChanged:
    """Accept requests again."""
    return await _ROUTES.resume(request, webhook, body)


def view_of(info: WebhookInfo) -> WebhookView:
    values = asdict(info)
    created = views.moment(info.created_at) or views.BEGINNING
    return WebhookView(**{**values, "created_at": created})
