"""Routes of alerts: what the workers watch for, and which incidents are open."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from stepwell.client.alerts import AlertInfo
from stepwell.domain.alerts import default_after
from stepwell.server import views
from stepwell.server.caller import caller_of
from stepwell.server.runs import RequestBody

AlertPath = Annotated[str, Path(max_length=200, description="name of an alert", examples=["failures"])]


class AlertRequest(RequestBody):
    what: str = Field(
        max_length=20,
        description="failed, stuck, overdue, no_worker or full_queue",
        examples=["failed"],
    )
    workflow: str = Field(default="", max_length=200, description="only runs of this workflow")
    queue: str = Field(default="", max_length=200, description="for no_worker and full_queue")
    after: str | float | None = Field(
        default=None, description="how long it must last; of failed runs, how far back they count"
    )
    at_least: int = Field(default=1, description="how many runs it takes")
    channel: str = Field(default="", max_length=64, description="where it is reported; '': metrics only")
    to: list[str] = Field(default=[], max_length=50, description="recipients, else those of the channel")
    repeat: str | float = Field(default="4h", description="how often an open incident is reported again")
    every: str | float = Field(default="15s", description="between two checks")
    paused: bool = False
    by: str = Field(default="", max_length=500, description="local mode only: who sets it")


class AlertIncidentView(BaseModel):
    """A problem that an alert found and that is not over."""

    subject: str = Field(description="the workflow or queue")
    since: datetime
    count: int
    runs: list[str] = Field(description="up to ten runs")
    reported_at: datetime | None


class AlertView(BaseModel):
    """An alert with its open incidents. Durations are in seconds."""

    name: str
    what: str
    workflow: str
    queue: str
    after: float
    at_least: int
    channel: str
    to: list[str]
    repeat: float
    every: float
    paused: bool
    incidents: list[AlertIncidentView]
    created_at: datetime
    created_by: str


class AlertList(BaseModel):
    alerts: list[AlertView]


class AlertDeleted(BaseModel):
    name: str
    changed: bool = Field(description="false: there was none")


async def set_alert(request: Request, alert_name: AlertPath, body: AlertRequest) -> AlertView:
    """Create an alert, or replace the one of that name; its open incidents stay."""
    caller = caller_of(request)
    info = await caller.engine.alerts.set(
        alert_name,
        body.what,
        workflow=body.workflow,
        queue=body.queue,
        after=default_after(body.what) if body.after is None else body.after,
        at_least=body.at_least,
        channel=body.channel,
        to=body.to,
        repeat=body.repeat,
        every=body.every,
        paused=body.paused,
        by=caller.who(body.by),
    )
    return _view(info)


async def list_alerts(request: Request) -> AlertList:
    """List the alerts of this workspace by name, with their open incidents."""
    rows = await caller_of(request).engine.alerts.list()
    return AlertList(alerts=[_view(row) for row in rows])


async def delete_alert(
    request: Request,
    alert_name: AlertPath,
    by: Annotated[str, Query(max_length=500, description="local mode only: who deletes it")] = "",
) -> AlertDeleted:
    """Delete an alert; its open incidents are forgotten."""
    caller = caller_of(request)
    done = await caller.engine.alerts.delete(alert_name, by=caller.who(by))
    return AlertDeleted(name=alert_name, changed=done)


def _view(info: AlertInfo) -> AlertView:
    return AlertView(
        name=info.name,
        what=info.what,
        workflow=info.workflow,
        queue=info.queue,
        after=info.after,
        at_least=info.at_least,
        channel=info.channel,
        to=list(info.to),
        repeat=info.repeat,
        every=info.every,
        paused=info.paused,
        incidents=[
            AlertIncidentView(
                subject=incident.subject,
                since=views.moment(incident.since) or views.BEGINNING,
                count=incident.count,
                runs=list(incident.runs),
                reported_at=views.moment(incident.reported_at),
            )
            for incident in info.incidents
        ],
        created_at=views.moment(info.created_at) or views.BEGINNING,
        created_by=info.created_by,
    )
