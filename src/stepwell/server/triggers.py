"""Routes of triggers: workflows that start when something happens."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from stepwell.client.event_triggers import PAYLOAD, EventTriggerInfo
from stepwell.server import views
from stepwell.server.caller import caller_of
from stepwell.server.named_triggers import NamedTriggerRoutes
from stepwell.server.runs import PAGE_MAX, RequestBody, WhoBody

TriggerName = Annotated[str, Path(max_length=500, description="name of a trigger", examples=["ship-orders"])]

_ROUTES = NamedTriggerRoutes("triggers")


class EventTriggerBody(RequestBody):
    name: str = Field(max_length=200)
    workflow: str = Field(max_length=500, description="the workflow that each event starts")
    version: str = Field(default="", max_length=500, description="empty: the latest")
    event: str = Field(default="", max_length=500, description="name of the broadcast event")
    key: str = Field(default="", max_length=500, description="only events of this key; empty: of any")
    condition: str = Field(
        default="", max_length=10_000, description="an expression", examples=["trigger.payload.amount > 100"]
    )
    source: str = Field(default="", max_length=500, description="instead of an event: the type of a source")
    config: Any = Field(default=None, description="configuration of the source")
    every: str | float | None = Field(default=None, description="how often the source is called")
    input: Any = Field(default=PAYLOAD, description="may contain {{trigger.payload.x}}, a value of the event")
    tags: dict[str, str] | None = None
    queue: str = Field(default="", max_length=500)
    priority: int | None = None
    timeout: str | float | None = None
    paused: bool = False
    by: str = Field(default="", max_length=500, description="local mode only: who does it")

    def options(self) -> dict[str, Any]:
        left_out = {"name", "workflow", "input", "by"}
        return {name: getattr(self, name) for name in self.model_fields_set - left_out}


class TriggerView(BaseModel):
    """A trigger: of a broadcast event, or of a source."""

    name: str
    workflow: str
    version: str
    event: str
    key: str
    condition: str
    source: str
    config: Any
    every: float | None
    input: Any
    tags: dict[str, str]
    queue: str
    priority: int | None
    timeout: float | None
    paused: bool
    paused_by: str
    reason: str
    refused: int = Field(description="events that started no run although they should have")
    refused_event: str
    refused_at: datetime | None
    refused_reason: str
    refused_message: str
    started: int = Field(description="runs that the source started")
    looked_at: datetime | None
    next_at: datetime | None
    failures: int = Field(description="of the source, in a row")
    error: str
    origin: str = Field(description="the workflow that declares it")
    created_at: datetime
    created_by: str


class TriggerPage(BaseModel):
    triggers: list[TriggerView]
    cursor: str | None


async def list_triggers(
    request: Request,
    workflow: Annotated[str, Query(max_length=500)] = "",
    cursor: Annotated[str, Query(max_length=500)] = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> TriggerPage:
    """List the triggers of events and sources by name."""
    page = await _ROUTES.page(request, view_of, workflow=workflow, cursor=cursor, limit=limit)
    return TriggerPage(**page)


async def create_trigger(request: Request, body: EventTriggerBody) -> TriggerView:
    """Start a workflow for each event, or for what a source finds."""
    caller = caller_of(request)
    info = await caller.engine.triggers.create(
        body.name, body.workflow, body.input, **body.options(), by=caller.who(body.by)
    )
    return view_of(info)


async def get_trigger(request: Request, trigger: TriggerName) -> TriggerView:
    """Return a trigger, with the last event that it could not start a run for."""
    return view_of(await caller_of(request).engine.triggers.get(trigger))


async def delete_trigger(
    request: Request,
    trigger: TriggerName,
    by: Annotated[str, Query(max_length=500, description="local mode only: who deletes it")] = "",
) -> views.TriggerChanged:
    """Delete a trigger; the runs that it started continue."""
    return await _ROUTES.delete(request, trigger, by)


async def pause_trigger(request: Request, trigger: TriggerName, body: WhoBody) -> views.TriggerChanged:
    """Start nothing until it is resumed."""
    return await _ROUTES.pause(request, trigger, body)


async def resume_trigger(request: Request, trigger: TriggerName, body: WhoBody) -> views.TriggerChanged:
    """Let it start runs again."""
    return await _ROUTES.resume(request, trigger, body)


def view_of(info: EventTriggerInfo) -> TriggerView:
    values = asdict(info)
    created = views.moment(info.created_at) or views.BEGINNING
    times = {name: views.moment(values[name]) for name in ("refused_at", "looked_at", "next_at")}
    return TriggerView(**{**values, **times, "created_at": created})
